//! The `hapax` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    hapax_cli::main()
}
