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

# The pages of docs/ as a book, in target/book. Needs `cargo install mdbook --no-default-features`.
book:
    mdbook build docs

# A fan-out of children, interrupted at so many places by chance. See docs/reference/simulation.md.
cancels places="10000":
    DEPUTIZE_SIM_CANCELS={{places}} cargo test --release --locked -p deputize-tests --test sim fan_out -- --nocapture

# Each fuzz target for so many minutes. Needs cargo-fuzz and a C++ compiler.
fuzz minutes="1":
    fuzz/run {{minutes}}

# What it costs by itself, beside the floor: `just bench --only start`. See docs/benchmarks.md.
bench *args:
    cargo build --release --locked -p deputize
    cargo run --release --locked -p deputize-bench -- {{args}}

# Writes the order of functions by which the program is linked. See docs/benchmarks.md. Needs valgrind.
link-order:
    benches/link-order

# A call of one tool, by each way to it: linked, loaded, isolated, MCP. See docs/guide/extending.md.
bench-calls *args:
    cargo run --release --locked -p deputize-bench -- --only calls {{args}}

# The inner parts, each by itself.
bench-parts *args:
    cargo bench --locked -p deputize-bench --bench parts -- {{args}}

ci:
    bash .ci/run
