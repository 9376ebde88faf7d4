"""Property tests are held to what is true, not to how fast a busy machine finds it."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
