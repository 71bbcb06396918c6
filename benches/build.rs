//! Compiles the BPF programs of the `kernel` benchmark: the production programs, and what they are measured against.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../crates/measure/bpf");
    println!("cargo::rerun-if-changed=../crates/measure/src");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // The kernel's headers lie in a folder of the architecture, where clang for BPF does not look.
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    libbpf_cargo::SkeletonBuilder::new()
        .source("bpf/kernel.bpf.c")
        .clang_args([
            format!("-I/usr/include/{machine}-linux-gnu").as_str(),
            "-mcpu=v3",
            "-Wno-unused-function",
        ])
        .obj(out.join("kernel.bpf.o"))
        .build()
        .unwrap_or_else(|error| panic!("cannot compile bpf/kernel.bpf.c: {error:?}"));
}
