//! The `blocklab` binary.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(cli::main())
}
