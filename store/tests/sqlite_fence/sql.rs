//! The fence as SQL text, for programs in other languages.

use super::*;

/// As a program in another language does it, which knows nothing of this crate but the text.
#[test]
fn as_plain_sql_a_stale_write_fails_and_leaves_nothing() {
    let folder = Folder::new();
    let data = data(&folder.file());
    let run = |token: &str| {
        let guard = [
            (":store", "''"),
            (":resource", "'stock'"),
            (":slot", "0"),
            (":token", token),
            (":owner", token),
        ]
        .iter()
        .fold(SqliteFence::guard_sql().to_owned(), |text, (name, value)| text.replace(name, value));
        let program = Connection::open(folder.file()).unwrap();
        program.execute_batch(&format!("BEGIN; {guard}; INSERT INTO stock VALUES ({token}); COMMIT"))
    };
    run("1").unwrap();
    run("2").unwrap();
    let stale = run("1").unwrap_err();
    assert!(stale.to_string().contains("lease fence: stale token"), "{stale}");
    assert_eq!(rows(&data), [1, 2]);
    run("2").unwrap();
    assert_eq!(rows(&data), [1, 2, 2]);
}

/// For drivers that this crate knows nothing of: the statement alone, and the database fails it.
#[test]
fn the_sql_text_makes_the_database_fail() {
    let folder = Folder::new();
    let data = data(&folder.file());
    let guard = |token: i64, owner: i64| {
        data.execute(
            SqliteFence::guard_sql(),
            rusqlite::named_params! { ":store": "", ":resource": "stock", ":slot": 0, ":token": token, ":owner": owner },
        )
    };
    data.execute_batch("BEGIN IMMEDIATE").unwrap();
    guard(2, 102).unwrap();
    guard(2, 102).unwrap();
    for (token, owner, expected) in [
        (1, 101, "stale token"),
        (2, 7, "rewound"),
        (i64::MAX, 1, "token out of range"),
        (0, 1, "token out of range"),
    ] {
        let error = guard(token, owner).unwrap_err();
        assert!(error.to_string().contains(&format!("lease fence: {expected}")), "{token} {owner}: {error}");
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::ConstraintViolation));
    }
    data.execute_batch("ROLLBACK").unwrap();
}
