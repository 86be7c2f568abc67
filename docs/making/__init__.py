"""The documentation site: assembles its pages, for mkdocs to build.

| file           | what it makes                                                              |
|----------------|----------------------------------------------------------------------------|
| `assemble`     | the folder of all pages: those of `docs/`, and those that are generated    |
| `links`        | links to files of the project, as links to pages of the site               |
| `reference`    | a page for each room, from its docstrings                                  |
| `command_line` | a page of every command and flag, from their help                          |
| `paper`        | the report in `results/report`, as pages                                   |
| `notebooks`    | the numbered examples as notebooks, and these as pages                     |
| `pictures/`    | the drawings of the concepts, as SVG                                       |
"""
