//! Rust's view of the C structs and functions that crates share with the kernel, generated from
//! every `native/native.h` into the `bindings.rs` beside it. The copies are committed so that a
//! build needs no libclang. `--check` (the default) tells whether they are current, `--write` makes
//! them so.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};

/// What measurements and the balancer share.
const SHARED: &str = "../src/native";
/// Every folder here that has a `native/native.h` is a measurement.
const MEASUREMENTS: &str = "../src";
const BALANCER: &str = "../../balance/src/native";

/// At the head of generated files, so modules that include them need not repeat it.
const LINTS: &str = "#![allow(non_camel_case_types, missing_docs, unreachable_pub, unsafe_code, dead_code, clippy::all, \
     clippy::pedantic, reason = \"generated\")]";

fn main() -> Result<()> {
    let is_written = env::args().any(|argument| argument == "--write");
    for folder in folders()? {
        let path = folder.join("bindings.rs");
        let generated = generate(&folder)?;
        if is_written {
            fs::write(&path, generated)
                .with_context(|| format!("cannot write {}", path.display()))?;
        } else if fs::read_to_string(&path).ok().as_ref() != Some(&generated) {
            bail!(
                "the C headers of {} have changed: run cargo run -p fathom-bindings -- --write",
                path.display()
            );
        }
    }
    Ok(())
}

/// Those with C that user space calls.
fn folders() -> Result<Vec<PathBuf>> {
    // Of the tree that it runs for: two that share a target directory share this program.
    let here =
        env::var_os("CARGO_MANIFEST_DIR").context("run it by cargo run -p fathom-bindings")?;
    let here = Path::new(&here);
    let mut folders = vec![here.join(SHARED), here.join(BALANCER)];
    for entry in fs::read_dir(here.join(MEASUREMENTS))? {
        let folder = entry?.path().join("native");
        if folder.join("native.h").exists() {
            folders.push(folder);
        }
    }
    Ok(folders)
}

fn generate(folder: &Path) -> Result<String> {
    let version = bindgen::RustTarget::stable(88, 0)
        .ok()
        .context("bindgen does not know Rust 1.88")?;
    let header = folder.join("native.h").display().to_string();
    let mut builder = bindgen::Builder::default()
        .header(header.as_str())
        .raw_line(LINTS);
    builder = seen(folder)?
        .iter()
        .fold(builder, bindgen::Builder::allowlist_file);
    if folder.ends_with(SHARED) {
        builder = builder.allowlist_type("__[su](8|16|32|64)");
    } else {
        // The module that includes the file says where the shared one is.
        builder = builder
            .raw_line("use super::shared::*;")
            .allowlist_recursively(false)
            .blocklist_type("__BindgenBitfieldUnit")
            .parse_callbacks(Box::new(Shared));
    }
    let bindings = builder
        .use_core()
        .prepend_enum_name(false)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .rust_target(version)
        .derive_default(true)
        .derive_eq(true)
        .derive_hash(true)
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .with_context(|| format!("cannot read {header}"))?;
    Ok(bindings.to_string())
}

/// The headers whose contents Rust sees, as regular expressions: a `native.h`, and those that it
/// includes, but the shared one.
fn seen(folder: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(folder.join("native.h"))?;
    let included = text
        .lines()
        .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
    let seen = included.filter(|path| !path.ends_with("/native.h"));
    Ok(seen
        .chain(["native.h"])
        .map(|path| literally(&folder.join(path)))
        .collect())
}

/// A regular expression of nothing but this path.
fn literally(path: &Path) -> String {
    let mut expression = String::new();
    for character in path.display().to_string().chars() {
        if character.is_ascii_punctuation() {
            expression.push('\\');
        }
        expression.push(character);
    }
    expression
}

/// Those of `response` with a union in them: it has neither `Debug` nor equality.
const WITH_UNIONS: [&str; 2] = ["response_flow", "response_epoch"];

/// What a shared struct has: it is as plain as those that are generated here, or has a union.
#[derive(Debug)]
struct Shared;

impl ParseCallbacks for Shared {
    fn blocklisted_type_implements_trait(
        &self,
        name: &str,
        derived: DeriveTrait,
    ) -> Option<ImplementsTrait> {
        let is_of_all = matches!(derived, DeriveTrait::Copy | DeriveTrait::Default);
        Some(if is_of_all || !WITH_UNIONS.contains(&name) {
            ImplementsTrait::Yes
        } else {
            ImplementsTrait::No
        })
    }
}
