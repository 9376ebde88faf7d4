"""A launcher for tests: a script that its first argument spells."""

import sys


def main() -> None:
    exec(sys.argv[1], {"__name__": "__main__"})


if __name__ == "__main__":
    main()
