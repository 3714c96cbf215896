//! `molboxd`: the molbox service.

fn main() -> std::process::ExitCode {
    molbox_service::main()
}
