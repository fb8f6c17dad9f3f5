"""``python -m torsor``: the program by its package's name, where a shell does not find it."""

from torsor.cli import main

if __name__ == "__main__":
    main()
