//! Rust's view of the shared C structs is generated; this holds the committed copy against the headers. The copy is there so that a
//! build needs no libclang. `FATHOM_ACCEPT=1 cargo test -p fathom-measure --test bindings` writes it anew.

use std::{env, fs, path::Path};

#[test]
fn bindings_are_those_of_the_headers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = bindgen::Builder::default()
        .header(folder.join("src/native/native.h").display().to_string())
        .allowlist_file(".*/(native|rtt|packet|flow|selection).h")
        .opaque_type("rtt_(pending|request|bucket)")
        .use_core()
        .prepend_enum_name(false)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .rust_target(
            bindgen::RustTarget::stable(88, 0)
                .unwrap_or_else(|_| panic!("bindgen knows Rust 1.88")),
        )
        .derive_default(true)
        .derive_eq(true)
        .derive_hash(true)
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .expect("the headers compile")
        .to_string();
    let path = folder.join("src/native/bindings.rs");
    if env::var_os("FATHOM_ACCEPT").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    assert!(
        committed == generated,
        "the headers changed: run FATHOM_ACCEPT=1 cargo test -p fathom-measure --test bindings"
    );
}
