//! Marks that are reached by their URL.

use super::*;

#[test]
fn marks_are_reached_by_url() {
    let folder = Folder::new();
    let url = format!("sqlite:{}?timeout=2s", folder.file().display());
    let error = open_marks(&url).err().unwrap();
    assert!(error.to_string().contains("no file"), "{error}");
    assert!(!folder.file().exists(), "a mistyped path would fence a database that nobody writes");
    drop(data(&folder.file()));
    let marks = open_marks(&url).unwrap();
    assert_eq!(block_on(marks.look(key())).unwrap(), None);
    block_on(marks.advance(key(), held(3))).unwrap();
    assert_eq!(block_on(marks.look(key())).unwrap().unwrap().token, token(3));
    let stale = GuardErrorKind::StaleToken { held: token(2), highest: token(3) };
    assert_eq!(block_on(marks.advance(key(), held(2))).unwrap_err().kind(), stale);
    block_on(marks.reset(key(), None, "test".into())).unwrap();
    assert_eq!(block_on(marks.look(key())).unwrap(), None);
    assert!(open_marks("sqlite::memory:").is_err());
    assert!(open_marks(&format!("{url}&max_ttl=1s")).is_ok(), "leases and data may share a URL");
    assert!(open_marks(&format!("{url}&ttl=1s")).is_err());
    let patient = open_marks(&format!("sqlite:{}?timeout=500y", folder.file().display()));
    assert!(patient.is_err(), "no unit of durations");
    let patient = open_marks(&format!("sqlite:{}?timeout=36500d", folder.file().display())).unwrap();
    assert_eq!(block_on(patient.look(key())).unwrap(), None, "longer than SQLite can count");
}

#[test]
fn marks_wait_for_other_writers_as_long_as_their_url_says() {
    let folder = Folder::new();
    let writing = data(&folder.file());
    let at =
        |timeout: &str| open_marks(&format!("sqlite:{}?timeout={timeout}", folder.file().display())).unwrap();
    let (patient, hasty) = (at("60s"), at("50ms"));
    writing.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = block_on(hasty.advance(key(), held(1))).unwrap_err();
    assert_eq!(busy.kind(), GuardErrorKind::Busy);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(patient.advance(key(), held(1))));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished(), "it did not wait");
        writing.execute_batch("COMMIT").unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(SqliteFence::look(&writing, &key()).unwrap().unwrap().token, token(1));
}
