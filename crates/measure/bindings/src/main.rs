//! Rust's view of the C structs and functions of `fathom-measure`, generated from `native.h` into `bindings.rs`. The copy is committed so that
//! a build needs no libclang. `--check` (the default) tells whether it is current, `--write` makes it so.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/native");
    let generated = generate(&folder.join("native.h"))?;
    let path = folder.join("bindings.rs");
    if env::args().any(|argument| argument == "--write") {
        return fs::write(&path, generated)
            .with_context(|| format!("cannot write {}", path.display()));
    }
    let committed =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if committed != generated {
        bail!("the C headers have changed: run cargo run -p fathom-bindings -- --write");
    }
    Ok(())
}

fn generate(header: &Path) -> Result<String> {
    let version = bindgen::RustTarget::stable(88, 0)
        .ok()
        .context("bindgen does not know Rust 1.88")?;
    let bindings = bindgen::Builder::default()
        .header(header.display().to_string())
        .allowlist_file(
            ".*/(native|rtt|profile|dns|lookup|packet|flow|selection|hops|probe|header|response).h",
        )
        .opaque_type("rtt_(pending|request|bucket)")
        .use_core()
        .prepend_enum_name(false)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .rust_target(version)
        .derive_default(true)
        .derive_eq(true)
        .derive_hash(true)
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .context("cannot read native.h")?;
    Ok(bindings.to_string())
}
