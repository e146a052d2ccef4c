"""`python -m longtail`, for where the `longtail` script is not on the path."""

from longtail.cli.app import main

if __name__ == "__main__":
    main()
