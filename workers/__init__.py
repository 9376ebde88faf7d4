"""The code of the ranks: what runs in the processes that train. To read it, start with spawn.py, then train.py."""

from workers.rank import guard

guard.die_with_console()  # first: importing torch takes seconds, and the console may end meanwhile
