# The steps of .ci/run, one by one.

check:
    cargo clippy --workspace --all-targets -- -D warnings

fmt:
    cargo fmt --all

test:
    cargo nextest run --workspace

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

ci:
    bash .ci/run
