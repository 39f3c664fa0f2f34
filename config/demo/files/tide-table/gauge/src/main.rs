//! Reads the log of a gauge, `<minute> <millimetres>` on each line, and prints means of ten minutes.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

fn reading(line: &str) -> Option<(u64, i64)> {
    let (minute, height) = line.split_once(' ')?;
    Some((minute.parse().ok()?, height.trim().parse().ok()?))
}

fn main() -> io::Result<()> {
    let mut sums: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
    for line in io::stdin().lock().lines() {
        if let Some((minute, height)) = reading(&line?) {
            let sum = sums.entry(minute / 10).or_default();
            sum.0 += height;
            sum.1 += 1;
        }
    }
    for (tens, (total, count)) in sums {
        println!("{} {}", tens * 10, total / count);
    }
    Ok(())
}
