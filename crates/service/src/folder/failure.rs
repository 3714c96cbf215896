//! Failures of the disk, the data folder and the database in it.

use std::io;

use rustix::io::Errno;

use crate::db::Error;
use crate::folder::Displaced;
use crate::objects::Failure;

/// What has failed, when a failure comes from the machine and not from the program: a disk or a
/// database that an operator can put right, or that gets right by itself.
pub(crate) fn storage_failure(cause: &anyhow::Error) -> Option<&'static str> {
    cause.chain().find_map(|error| {
        if error.is::<Displaced>() {
            return Some(DISPLACED);
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            let failure = error.get_ref().and_then(|inner| inner.downcast_ref::<Failure>());
            return failure.map(Failure::what).or_else(|| of_system(error));
        }
        error.downcast_ref::<Error>().and_then(of_database)
    })
}

/// Whether a failure is that of a server elsewhere that does not answer, or not yet.
pub(crate) fn is_absence(cause: &anyhow::Error) -> bool {
    cause.chain().any(|error| {
        let of_store = error.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
        of_store.and_then(|inner| inner.downcast_ref()).is_some_and(Failure::is_absence)
            || matches!(error.downcast_ref(), Some(Error::Unreachable(_)))
    })
}

const DISPLACED: &str = "the service's data folder is not in its place";
const FULL: &str = "the service's disk is full";
const READ_ONLY: &str = "the service cannot write to its disk";
const FAILS: &str = "the service's disk fails";
const DAMAGED: &str = "the service's database is damaged";
const NO_MEMORY: &str = "the service's machine has no memory left";

/// Whether a failure is that of a damaged database.
pub(crate) fn is_damage(cause: &anyhow::Error) -> bool {
    storage_failure(cause) == Some(DAMAGED)
}

/// Whether a failure is that of a full disk.
pub(crate) fn is_full(cause: &anyhow::Error) -> bool {
    storage_failure(cause) == Some(FULL)
}

/// What is in the way, by the error of the database.
fn of_database(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Full(_) => FULL,
        Error::ReadOnly(_) => READ_ONLY,
        Error::Io(_) => FAILS,
        Error::Unreachable(_) | Error::Untrusted(_) | Error::Interrupted(_) => {
            "the service's database does not answer"
        }
        Error::Busy(_) => "another program holds the service's database",
        Error::Crowded(_) => "the service's database has no connection left",
        Error::Damaged(_) => DAMAGED,
        Error::NoMemory(_) => NO_MEMORY,
        Error::Displaced(_) => DISPLACED,
        Error::Superseded(_) | Error::Other(_) => return None,
    })
}

/// What is in the way, by the error of a system call.
fn of_system(error: &io::Error) -> Option<&'static str> {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    match (error.kind(), code) {
        (
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge,
            _,
        ) => Some(FULL),
        (io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied, _) => Some(READ_ONLY),
        (io::ErrorKind::StaleNetworkFileHandle, _) => Some(FAILS),
        (_, Some(Errno::IO | Errno::NXIO | Errno::NODEV | Errno::NOTCONN)) => Some(FAILS),
        (_, Some(Errno::MFILE | Errno::NFILE)) => Some("the service has too many files open"),
        (io::ErrorKind::OutOfMemory, _) => Some(NO_MEMORY),
        _ => None,
    }
}
