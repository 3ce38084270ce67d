//! What docs/fencing.md shows of SQL, for the tests that carry it out.

/// The blocks under a heading, in order, each with the SQLSTATE that the page says it fails by.
pub fn sql_under(heading: &str) -> Vec<(&'static str, Option<&'static str>)> {
    let page = include_str!("../../../docs/fencing.md");
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let blocks = section.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| (block, block.split("-- fails: ").nth(1).map(|rest| &rest[..5]))).collect()
}
