"""A run, a projection or a comparison as one file for a browser: nothing in it is fetched from anywhere."""
