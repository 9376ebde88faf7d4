"""What `ddptui doctor` tries in processes of its own: it asks torch, lets ranks meet, and kills dependent processes."""
