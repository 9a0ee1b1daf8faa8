//! The golden vectors of `tests/golden/orders.json`, which `tests/support/oracle/order.py` wrote.

use fastresume::{Intervals, Order, OrderKind, Permutation, Selection, permutation::key, split::is_in_split};
use serde_json::Value;

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/orders.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn word(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap(), 16).unwrap()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

fn crc32(numbers: impl Iterator<Item = u64>) -> String {
    let mut hasher = crc32fast::Hasher::new();
    numbers.for_each(|number| hasher.update(&number.to_le_bytes()));
    format!("{:08x}", hasher.finalize())
}

#[test]
fn keys_and_permutations_are_those_of_the_oracle() {
    let golden = golden();
    for entry in list(&golden["keys"]) {
        let words: Vec<u64> = list(&entry["words"]).iter().map(number).collect();
        assert_eq!(key(&words), word(&entry["key"]));
    }
    for entry in list(&golden["permutations"]) {
        let n = number(&entry["n"]);
        let permutation = Permutation::new(n, word(&entry["key"]));
        for pair in list(&entry["at"]) {
            assert_eq!(permutation.at(number(&pair[0])), number(&pair[1]), "n {n}");
            assert_eq!(permutation.inverse(number(&pair[1])), number(&pair[0]), "n {n}");
        }
        if let Some(expected) = entry["crc32"].as_str() {
            assert_eq!(crc32((0..n).map(|index| permutation.at(index))), expected, "n {n}");
        }
    }
    assert!(list(&golden["keys"]).len() > 3 && list(&golden["permutations"]).len() > 10);
}

#[test]
fn splits_and_hashes_of_selections_are_those_of_the_oracle() {
    let golden: Value =
        serde_json::from_str(include_str!("../../../../tests/golden/selections.json")).unwrap();
    let intervals = |value: &Value| {
        let pairs = list(value).iter().map(|pair| number(&pair[0])..number(&pair[1]));
        Intervals::new(pairs.collect()).unwrap()
    };
    for entry in list(&golden["splits"]) {
        let (first, parts) =
            (number(&entry["first"]), number(&entry["parts"][0])..number(&entry["parts"][1]));
        let seed = number(&entry["seed"]);
        let found =
            (first..first + 200).filter(|&row| is_in_split(row, &parts, seed)).map(|row| row..row + 1);
        assert_eq!(Intervals::new(found.collect()).unwrap(), intervals(&entry["rows"]), "{entry}");
    }
    for entry in list(&golden["hashes"]) {
        let selection = Selection::new(&[0, (1 << 53) - 1], intervals(&entry["rows"])).unwrap();
        assert_eq!(selection.hash(), entry["hash"].as_str(), "{entry}");
    }
    assert!(list(&golden["splits"]).len() > 10 && list(&golden["hashes"]).len() > 5);
}

#[test]
fn orders_are_those_of_the_oracle() {
    let golden = golden();
    for entry in list(&golden["orders"]) {
        let name = &entry["name"];
        let mut starts = vec![0];
        for run in list(&entry["groups"]) {
            for _ in 0..number(&run[1]) {
                starts.push(starts[starts.len() - 1] + number(&run[0]));
            }
        }
        let [seed, epoch, block_rows, window_rows, rows] =
            ["seed", "epoch", "block_rows", "window_rows", "rows"].map(|field| number(&entry[field]));
        assert_eq!(starts[starts.len() - 1], rows, "{name}");
        let order = Order::new(
            &OrderKind::Shuffled { seed, block_rows, window_rows },
            epoch,
            Selection::everything(&starts),
        )
        .unwrap();
        let (blocks, windows) = order.sizes().unwrap();
        assert_eq!(
            (blocks as u64, windows as u64),
            (number(&entry["blocks"]), number(&entry["windows"])),
            "{name}"
        );
        let row = |position| order.rows(position..position + 1).next().unwrap().start;
        let (first, last) = (list(&entry["first"]), list(&entry["last"]));
        for (position, expected) in (0..).zip(first).chain((rows - last.len() as u64..).zip(last)) {
            assert_eq!(row(position), number(expected), "{name}, position {position}");
        }
        for pair in list(&entry["at"]) {
            let (position, expected) = (number(&pair[0]), number(&pair[1]));
            assert_eq!(row(position), expected, "{name}, position {position}");
            let window = order.window_at(position).unwrap();
            let block = window.blocks.iter().position(|rows| rows.contains(&expected)).unwrap();
            window.places(&window.inverse(), block, expected..expected + 1, |places| {
                assert_eq!(places, [position - window.positions.start], "{name}, row {expected}");
            });
        }
        if let Some(expected) = entry["crc32"].as_str() {
            assert_eq!(crc32(order.rows(0..rows).flatten()), expected, "{name}");
        }
    }
    assert!(list(&golden["orders"]).len() > 10);
}
