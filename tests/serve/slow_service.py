"""`longtail serve` whose explanations never end: run with `python -m tests.serve.slow_service serve MODEL ...`."""

import longtail as lt
from longtail.cli.app import main


def explain_forever(self, text, label, **options):
    while True:  # pure Python, as the slow explanations were
        pass


lt.Tagger.explain = explain_forever

if __name__ == "__main__":
    main()
