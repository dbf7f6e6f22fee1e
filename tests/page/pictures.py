"""The pictures of docs/, which pngquant makes small (pngquant 64 FILE).
usage: pictures.py BUILD FOLDER"""

import os
import sys
import time

import documents
from browser import Browser


def run_again():
    """The rank that failed runs in the next round: it has no mark."""
    run = documents.busy()
    for node in run["nodes_list"]:
        node.pop("failed_first", None)
    return documents.document(run)


DOCS = (("page-run.png", "light", run_again),
        ("page-large.png", "dark",
         lambda: documents.document(documents.large())))


def main():
    from check import Job
    job, b = Job(), Browser()
    try:
        fake = documents.Fake(job.url)
        b.size(1240, 720)
        for name, scheme, make in DOCS:
            b.scheme(scheme)
            fake.show(make())
            b.open(fake.url)
            b.until("!!document.querySelector('section')", "the page")
            time.sleep(0.3)
            b.picture(os.path.join(sys.argv[2], name))
    finally:
        b.close()
        job.close()


main()
