"""The pictures of docs/, which pngquant makes small (pngquant 64 FILE).
usage: pictures.py BUILD FOLDER"""

import os
import sys
import time

import documents
from browser import Browser

DOCS = (("page-run.png", "light", lambda: documents.document(documents.busy())),
        ("page-large.png", "dark",
         lambda: documents.document(documents.large())))


def main():
    from check import Job
    job, b = Job(), Browser()
    try:
        fake = documents.Fake(job.url)
        b.size(1240, 680)
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
