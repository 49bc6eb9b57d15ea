//! Finds an installed qinfer through pkg-config, or, with the feature `build`, builds the library from the checkout
//! that contains this crate and links it statically. Dependents learn where the header is: DEP_QINFER_INCLUDE.

#[cfg(not(feature = "build"))]
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let found = pkg_config::Config::new()
        .atleast_version("0.2")
        .probe("qinfer");
    match found {
        Ok(library) => {
            if let Some(include) = library.include_paths.first() {
                println!("cargo:include={}", include.display());
            }
        }
        Err(failure) => {
            eprintln!(
                "{failure}\nqinfer 0.2 or newer was not found: install it and set PKG_CONFIG_PATH to its \
                 lib/pkgconfig, or build it from the checkout with the feature `build`"
            );
            std::process::exit(1);
        }
    }
}

#[cfg(feature = "build")]
fn main() {
    /// Folders and files of the checkout that the library is made of.
    const SOURCES: [&str; 6] = [
        "CMakeLists.txt",
        "cmake",
        "include",
        "src",
        "capi",
        "kernels",
    ];
    /// What the static library needs, as cmake/qinfer.pc.in lists it.
    const NEEDS: [&str; 4] = ["utf8proc", "stdc++", "m", "pthread"];

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
        .define("QINFER_BUILD_GRAMMAR", "OFF")
        .build();
    let (libraries, headers) = (prefix.join("lib"), prefix.join("include"));
    println!("cargo:rustc-link-search=native={}", libraries.display());
    println!("cargo:rustc-link-lib=static=qinfer");
    for library in NEEDS {
        println!("cargo:rustc-link-lib={library}");
    }
    println!("cargo:include={}", headers.display());
}
