//! Compiles the algorithms for user space, and (feature `live`) the BPF programs.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=src");
    cc::Build::new()
        .files(files_below("src", "native.c"))
        .warnings(true)
        .extra_warnings(true)
        // What is only for clang, and headers of packets.
        .flag("-Wno-unknown-pragmas")
        .flag("-Wno-address-of-packed-member")
        .opt_level(3)
        .compile("fathom_native");
    #[cfg(feature = "live")]
    build_programs();
}

/// Every `NAME.bpf.c` becomes an object `NAME.bpf.o.zst`, a seventh of its size.
#[cfg(feature = "live")]
fn build_programs() {
    use std::env;

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // The kernel's headers lie in a folder of the architecture, where clang for BPF does not look:
    // in the second for another architecture than this machine's.
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let headers = format!("-I/usr/include/{machine}-linux-gnu");
    let others = format!("-I/usr/{machine}-linux-gnu/include");
    // Programs name their sources, and are the same wherever these lie.
    let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let names = format!("-ffile-prefix-map={folder}=crates/measure");
    let sources = ["bpf", "src"].map(|folder| files_below(folder, ".bpf.c"));
    for source in sources.concat() {
        let object = source.with_extension("o");
        let object = out.join(object.file_name().expect("a file has a name"));
        libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .clang_args([
                headers.as_str(),
                others.as_str(),
                names.as_str(),
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Wno-unused-function",
                "-Wno-unused-parameter",
            ])
            .obj(&object)
            .build()
            .unwrap_or_else(|error| panic!("cannot compile {}: {error:?}", source.display()));
        let bytes = fs::read(&object).expect("the object was just written");
        let compressed = zstd::encode_all(bytes.as_slice(), 19).expect("memory takes it");
        fs::write(object.with_extension("o.zst"), compressed).expect("there is room");
    }
}

/// The files below a folder whose names end so.
fn files_below(folder: impl AsRef<Path>, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("the sources are there").path();
        if path.is_dir() {
            found.extend(files_below(path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found
}
