//! Locks of threads that run beside each other.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic elsewhere is reported on its own; what the mutex guards is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
