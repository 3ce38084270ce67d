//! Letting go of Ruby's lock (the GVL) while something is waited for.
//!
//! What must hold, and is what makes the unsafe code here sound:
//!
//! 1. **What runs without the lock calls nothing of Ruby's and has none of its objects.** It is `Send`, which magnus's types
//!    are not, and so is what it gives back.
//! 2. **Nothing unwinds or jumps through frames that are not its own.** A panic is caught before it would leave Rust and
//!    carried back as a value. `rb_thread_call_without_gvl2` raises nothing itself, unlike `rb_thread_call_without_gvl`:
//!    where an interrupt is pending it returns without having called, and what interrupts mean is asked afterwards, by
//!    `Ruby::thread_check_ints`, which magnus protects.
//! 3. **What is handed over outlives the call.** Both pointers are to this frame, which does not return before the call
//!    does; Ruby takes the second one back under the lock that it calls `unblock` under.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// What a panic was about.
pub(crate) struct Panicked(pub(crate) String);

/// Runs `work` without Ruby's lock; `None` where it was not run, since an interrupt is pending. `unblock` is called, on any
/// thread and perhaps too late, when an interrupt comes meanwhile: it has to end `work` soon.
pub(crate) fn without<T, W, U>(work: W, unblock: &U) -> Option<Result<T, Panicked>>
where
    T: Send,
    W: FnOnce() -> T + Send,
    U: Fn() + Sync,
{
    let mut call = Call { work: Some(work), result: None };
    // SAFETY: 1 to 3 above; both functions are given what they cast to.
    unsafe {
        rb_sys::rb_thread_call_without_gvl2(
            Some(run::<T, W>),
            ptr::from_mut(&mut call).cast::<c_void>(),
            Some(interrupt::<U>),
            ptr::from_ref(unblock).cast_mut().cast::<c_void>(),
        );
    }
    call.result
}

/// A panic as a value.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked(said(&*payload)))
}

struct Call<T, W> {
    work: Option<W>,
    result: Option<Result<T, Panicked>>,
}

unsafe extern "C" fn run<T, W: FnOnce() -> T>(call: *mut c_void) -> *mut c_void {
    // SAFETY: it is the `Call` of `without`, which waits and does not touch it meanwhile.
    let call = unsafe { &mut *call.cast::<Call<T, W>>() };
    call.result = call.work.take().map(caught);
    ptr::null_mut()
}

unsafe extern "C" fn interrupt<U: Fn()>(unblock: *mut c_void) {
    // SAFETY: it is the `unblock` of `without`, which is there until Ruby has forgotten it, and may be shared.
    let unblock = unsafe { &*unblock.cast::<U>() };
    // There is nobody to tell: whoever waits goes on waiting.
    let _ = caught(unblock);
}

fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
