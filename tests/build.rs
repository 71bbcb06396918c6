//! Compiles the functions that users may give to `fathom hops`: the documented examples, and some
//! that must be refused.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../crates/measure/src/hops/program.h");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    for folder in ["../docs/examples", "end_to_end/hops/programs"] {
        println!("cargo::rerun-if-changed={folder}");
        for entry in Path::new(folder).read_dir().expect("the folder is there") {
            let source = entry.expect("the folder can be read").path();
            if source.extension().is_none_or(|extension| extension != "c") {
                continue;
            }
            let Some(name) = source.file_stem().and_then(|name| name.to_str()) else {
                continue;
            };
            let status = Command::new("clang")
                .args(["-O2", "-g", "-target", "bpf", "-Wall", "-Wextra", "-Werror"])
                .arg("-Wno-unused-parameter")
                .arg(format!("-I/usr/include/{machine}-linux-gnu"))
                .arg(format!("-I/usr/{machine}-linux-gnu/include"))
                .arg("-c")
                .arg(&source)
                .arg("-o")
                .arg(format!("{out}/{name}.o"))
                .status();
            assert!(
                status.is_ok_and(|status| status.success()),
                "cannot compile {}",
                source.display()
            );
        }
    }
}
