//! Programs that tests compile for the kernel, and whether they can be run. The tests of the
//! balancer have this file too.

use std::path::Path;
use std::process::Command;

/// Compiles the programs in a file below `tests`.
pub(crate) fn compile(source: &str) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(source);
    let name = source.file_stem().unwrap().to_str().unwrap();
    let object =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{}.o", std::process::id()));
    libbpf_cargo::SkeletonBuilder::new()
        .source(&source)
        .obj(&object)
        .clang_args([
            &format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH),
            "-mcpu=v3",
            "-Wno-unused-function",
        ])
        .build()
        .unwrap();
    let bytes = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    bytes
}

/// Why this process cannot load programs, if it cannot.
pub(crate) fn obstacle() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output().unwrap().stdout;
    (id.trim_ascii() != b"0").then_some("running BPF programs needs root")
}
