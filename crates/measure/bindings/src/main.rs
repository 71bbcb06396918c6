//! Rust's view of the C structs and functions that crates share with the kernel, generated from each one's `native.h` into `bindings.rs`. The
//! copies are committed so that a build needs no libclang. `--check` (the default) tells whether they are current, `--write` makes them so.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};

/// A crate's folder of C that user space calls.
struct Native {
    folder: &'static str,
    /// The headers whose contents Rust sees, as a regular expression.
    headers: &'static str,
    /// Types whose fields are nobody's business, as a regular expression.
    opaque: &'static str,
}

const NATIVES: [Native; 2] = [
    Native {
        folder: "../src/native",
        headers: ".*/(native|rtt|profile|dns|lookup|packet|flow|selection|hops|probe|header|response|sizes).h",
        opaque: "rtt_(pending|request|bucket)",
    },
    Native {
        folder: "../../balance/src/native",
        headers: ".*/(native|balance|table|flow|selection|response).h",
        opaque: "",
    },
];

fn main() -> Result<()> {
    let is_written = env::args().any(|argument| argument == "--write");
    NATIVES.iter().try_for_each(|native| {
        if is_written {
            native.write()
        } else {
            native.check()
        }
    })
}

impl Native {
    fn write(&self) -> Result<()> {
        let path = self.path("bindings.rs");
        fs::write(&path, self.generate()?).with_context(|| format!("cannot write {path}"))
    }

    fn check(&self) -> Result<()> {
        let path = self.path("bindings.rs");
        let committed = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        if committed != self.generate()? {
            bail!(
                "the C headers of {path} have changed: run cargo run -p fathom-bindings -- --write"
            );
        }
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder);
        folder.join(name).display().to_string()
    }

    fn generate(&self) -> Result<String> {
        let version = bindgen::RustTarget::stable(88, 0)
            .ok()
            .context("bindgen does not know Rust 1.88")?;
        let header = self.path("native.h");
        let mut builder = bindgen::Builder::default()
            .header(header.as_str())
            .allowlist_file(self.headers);
        if !self.opaque.is_empty() {
            builder = builder.opaque_type(self.opaque);
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
}
