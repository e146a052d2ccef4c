"""Write the tables of docs/vocabulary.md and docs/feedback.md from benchmarks/results: unseen labels, and the queue.

python benchmarks/write_loop_tables.py           write them between the marks of the pages
python benchmarks/write_loop_tables.py --check   exit with 1 if a page is out of date
"""

from page_tables import Table, main, read


def unseen() -> str:
    """Return one row per split, with how probable the proposals were said to be."""
    last = {record["split"]: record for record in read("unseen")}
    lines = ["| split | found by five proposals | right | right by chance | mean probability |", "|---" * 5 + "|"]
    for split, record in sorted(last.items()):
        said = sum(band["n"] * band["mean_proba"] for band in record["bands"]) / record["n_proposed"]
        shares = (record["recall@5"], record["precision"], record["share_of_chance"], said)
        lines.append(f"| {split} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |")
    return "\n".join(lines)


def queue() -> str:
    """Return one row per choice of texts, as means over the seeds that all of them have."""
    found = {(record["equal"], record["by"], record["seed"]): record for record in read("queue")}
    lines = ["| more answers | seeds | P@1 | P@5 | PSP@5 | texts | labels given | labels seen |", "|---" * 8 + "|"]
    titles = {"random": "at random", "uncertain": "`by=uncertain`", "rare": "`by=rare`"}
    for equal in ("texts", "labels"):
        seeds = set.intersection(*({s for e, b, s in found if (e, b) == (equal, by)} for by in titles))
        for by, title in titles.items() if seeds else ():
            rows = [found[equal, by, seed] for seed in sorted(seeds)]
            names = ("P@1", "P@5", "PSP@5", "n_texts", "labels_given", "labels_seen")
            means = [sum(row[name] for row in rows) / len(rows) for name in names]
            cells = [f"{mean:.1f}" if "@" in name else f"{mean:.0f}" for name, mean in zip(names, means, strict=True)]
            lines.append(f"| {title}, as many {equal} | {len(rows)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, [Table("vocabulary.md", "unseen", unseen()), Table("feedback.md", "queue", queue())])
