"""`python -m making.pictures`: draw all pictures anew."""

from making.pictures import FOLDER, PICTURES

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw())
        print(f"docs/pictures/{name}.svg")
