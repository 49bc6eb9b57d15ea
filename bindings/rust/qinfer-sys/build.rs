//! Finds an installed qinfer through pkg-config, or, with the feature `build`, builds the library from the checkout
//! that contains this crate and links it statically. Dependents learn where the header is: DEP_QINFER_INCLUDE. With the
//! feature `grammar` libqinfer_grammar, too, always as a shared library.

#[cfg(not(feature = "build"))]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let library = find("qinfer", "");
    if let Some(include) = library.include_paths.first() {
        println!("cargo:include={}", include.display());
    }
    if cfg!(feature = "grammar") {
        find(
            "qinfer-grammar",
            ", built where cargo is (QINFER_BUILD_GRAMMAR),",
        );
    }
}

/// Links a library that pkg-config knows.
#[cfg(not(feature = "build"))]
fn find(name: &str, which: &str) -> pkg_config::Library {
    let mut config = pkg_config::Config::new();
    match config.atleast_version("0.2").probe(name) {
        Ok(library) => library,
        Err(failure) => {
            eprintln!(
                "{failure}\n{name} 0.2 or newer was not found: install qinfer{which} and set PKG_CONFIG_PATH to its \
                 lib/pkgconfig, or build it from the checkout with the feature `build`"
            );
            std::process::exit(1);
        }
    }
}

#[cfg(feature = "build")]
fn main() {
    /// Folders and files of the checkout that the library is made of.
    const SOURCES: [&str; 7] = [
        "CMakeLists.txt",
        "cmake",
        "include",
        "src",
        "capi",
        "kernels",
        "grammar",
    ];
    /// What the static library needs, as cmake/qinfer.pc.in lists it.
    const NEEDS: [&str; 4] = ["utf8proc", "stdc++", "m", "pthread"];

    const HAS_GRAMMAR: bool = cfg!(feature = "grammar");
    // What cargo calls in rustc's place for the crates of this workspace is not for those of the grammars.
    std::env::remove_var("RUSTC_WORKSPACE_WRAPPER");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    println!("cargo:rerun-if-changed=build.rs");
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", root.join(source).display());
    }
    let prefix = cmake::Config::new(&root)
        // Also in debug builds of the host: unoptimised kernels are of no use.
        .profile("Release")
        .define("CMAKE_INSTALL_LIBDIR", "lib")
        .define("QINFER_BUILD_TESTS", "OFF")
        .define("QINFER_BUILD_EXAMPLES", "OFF")
        .define("QINFER_BUILD_STATIC", "ON")
        .define("QINFER_BUILD_SHARED", "OFF")
        .define(
            "QINFER_BUILD_GRAMMAR",
            if HAS_GRAMMAR { "ON" } else { "OFF" },
        )
        .build();
    let (libraries, headers) = (prefix.join("lib"), prefix.join("include"));
    println!("cargo:rustc-link-search=native={}", libraries.display());
    println!("cargo:rustc-link-lib=static=qinfer");
    for library in NEEDS {
        println!("cargo:rustc-link-lib={library}");
    }
    if HAS_GRAMMAR {
        println!("cargo:rustc-link-lib=dylib=qinfer_grammar");
    }
    println!("cargo:include={}", headers.display());
}
