"""What to do about an installed torch that lacks something: words that several say. Pure."""
