//! Many requests at once.

use std::future::Future;

use crate::{ErrorKind, StoreError};

/// Has all of these requests made at once, on the runtime that this is polled on; each has its own answer.
pub(crate) async fn each<T, F>(requests: impl Iterator<Item = F>) -> Vec<Result<T, StoreError>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    let made: Vec<_> = requests.map(tokio::spawn).collect();
    let mut answers = Vec::with_capacity(made.len());
    for answer in made {
        answers.push(answer.await.unwrap_or_else(|error| {
            Err(StoreError::new(ErrorKind::Unreachable, "the request was given up").with_source(error))
        }));
    }
    answers
}
