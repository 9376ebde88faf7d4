"""The rank side of the lab: what runs in the processes that train. Start with spawn.py, then train.py."""

from workers.rank import guard

guard.die_with_console()  # first of all: importing torch takes seconds, and the console may end meanwhile
