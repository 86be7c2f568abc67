"""`python -m making`: assemble the site's pages in site/pages."""

from making.assemble import assemble
from making.links import ROOT

if __name__ == "__main__":
    print(f"{assemble(ROOT / 'site' / 'pages')} pages in site/pages")
