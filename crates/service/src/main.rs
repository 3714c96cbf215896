//! `molboxd`: the molbox service.

/// A request makes a few hundred small allocations; this serves them in less time than the
/// system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    molbox_service::main()
}
