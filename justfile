# Short names for everyday steps. What must hold before a change lands is `.ci/run`.

# Warnings as errors, as in CI.
check:
    cargo clippy --workspace --all-targets --locked -- -D warnings

fmt:
    cargo fmt --all

# Faster than `cargo test`; without doc tests. Needs cargo-nextest.
test:
    cargo nextest run --workspace

doc-test:
    cargo test --workspace --doc --locked

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

ci:
    bash .ci/run
