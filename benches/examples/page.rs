//! Writes the page of a file of results, or of invented numbers: `page OUT.html [RESULTS.json]`.

use std::{env, fs, path::Path};

use anyhow::Context as _;
use benches::{page, results::Results};

fn main() -> anyhow::Result<()> {
    let mut arguments = env::args_os().skip(1);
    let out = arguments.next().context("usage: page OUT.html [RESULTS.json]")?;
    let results = match arguments.next() {
        Some(file) => Results::load(Path::new(&file))?,
        None => page::synthetic::results(),
    };
    fs::write(&out, page::html(&results)).with_context(|| Path::new(&out).display().to_string())?;
    println!("{}", page::text(&results));
    Ok(())
}
