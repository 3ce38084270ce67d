//! docs/json.md against what `--json` prints.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::{World, repository};

#[test]
fn every_answer_has_exactly_the_documented_fields() {
    let shapes = Shapes::read(&repository("docs/json.md"));
    let world = World::new();
    let mut checked = BTreeSet::new();
    let mut check = |shape: &str, answer: &Value| shapes.check(shape, answer, shape, &mut checked);

    world.acquire("s2 --ttl 1h");
    let grant = world.json("acquire r --ttl 1h --label me");
    check("Decision", &grant);
    let options =
        format!("--owner {} --token {}", grant["owner"].as_str().unwrap(), grant["token"].as_str().unwrap());
    check("Decision", &world.lease("acquire r --ttl 1h --json").json());
    check("Decision", &world.json(&format!("renew r --ttl 1h {options}")));
    check("Resource", &world.json("show r"));
    check("Check", &world.json("check r"));
    check("History", &world.json("history r"));
    check("Decision", &world.json(&format!("release r --result good --at-least 1ms {options}")));
    check("Decision", &world.lease(&format!("renew r --ttl 1h {options} --json")).json());
    check("Resource", &world.json("show unseen"));
    check("Check", &world.lease("check unseen --idle-max 1 --json").json());
    check("Check", &world.json("check r --idle-max 1h"));
    check("History", &world.json("history unseen"));
    world.acquire("s --ttl 1h");
    check("Listing", &world.json("ls"));
    check("Decision", &world.lease("revoke s --yes --reason test --json").json());
    check("Decision", &world.lease("revoke s --yes --json").json());
    check("History", &world.json("history s"));
    check("MachineId", &world.json("id acquire ids --ttl 1h --identity web"));
    check("MachineId", &world.lease("id acquire ids --ttl 1h --range 60000-60001 --json").json());
    world.json("id acquire ids --ttl 1h");
    check("Pool", &world.json("id ls ids"));
    let id = world.lease("id next ids").ok().out;
    check("DecodedId", &world.json(&format!("id decode {}", id.trim())));
    check("Whois", &world.json(&format!("id whois ids {}", id.trim())));
    check("Pruned", &world.json("prune --older-than 1h"));
    check("Epoch", &world.json("epoch show"));
    check("Epoch", &world.lease("epoch open --yes --now --json").json());
    check("Fence", &world.json("fence check r"));
    check("Fence", &world.json(&format!("fence advance r {options}")));
    check("Fence", &world.json("fence reset r --reason test --yes"));
    check("Forgotten", &world.json("fence prune --older-than 1h"));
    check("Doctor", &world.json("doctor"));
    check("Migrated", &world.json("migrate"));
    check("Migration", &world.json("migrate --print"));
    let new = format!("sqlite:{}", world.path("new.db").display());
    let old = World::set_up();
    let moved = old.lease(&format!("migrate --json --yes --from {} --to {new}", old.url()));
    check("Moved", &moved.json());

    for event in events(&world, "run t -- /bin/true") {
        check("Event", &event);
    }
    for event in events(&world, "run -w 1s s2 -- /bin/true") {
        check("Event", &event);
    }

    let documented: BTreeSet<&str> = shapes.0.keys().map(String::as_str).collect();
    let checked: BTreeSet<&str> = checked.iter().map(String::as_str).collect();
    assert_eq!(documented, checked, "a shape is documented and was not seen");
}

/// What `--events` wrote of a run.
fn events(world: &World, words: &str) -> Vec<Value> {
    let file = world.path("events");
    let _ = std::fs::remove_file(&file);
    let words = words.split(' ').flat_map(|word| match word {
        "run" => vec!["run".to_owned(), "--events".to_owned(), file.display().to_string()],
        word => vec![word.to_owned()],
    });
    world.command(words).output().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.lines().count() >= 2, "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_example_is_one() {
    let text = repository("docs/json.md");
    let example = text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let example: Value = serde_json::from_str(example).unwrap();
    Shapes::read(&text).check("Decision", &example, "example", &mut BTreeSet::new());
}

#[test]
fn every_command_that_prints_an_answer_is_in_the_table() {
    let text = repository("docs/json.md");
    let world = World::new();
    let help = world.lease("--help").ok().out;
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut seen = 0;
    for command in
        commands.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| *word != "help")
    {
        let options = world.lease(&format!("{command} --help")).ok().out;
        if options.contains("--json") {
            seen += 1;
            assert!(
                text.contains(&format!("`lease {command}")) || text.contains(&format!(", `{command}`")),
                "{command}"
            );
        }
    }
    assert!(seen >= 10, "found {seen} in {help}");
}

/// The tables of the document: for each object its fields, and the types that each may have.
struct Shapes(BTreeMap<String, BTreeMap<String, Vec<String>>>);

impl Shapes {
    fn read(text: &str) -> Self {
        let mut shapes = BTreeMap::new();
        for section in text.split("\n### ").skip(1) {
            let (name, body) = section.split_once('\n').unwrap();
            let fields: BTreeMap<String, Vec<String>> = body
                .lines()
                .filter_map(|line| line.strip_prefix("| `"))
                .map(|line| {
                    let mut cells = line.split(" | ");
                    let field = cells.next().unwrap().trim_end_matches('`').to_owned();
                    (field, cells.next().unwrap().split(" or ").map(str::to_owned).collect())
                })
                .collect();
            assert!(!fields.is_empty(), "no fields of {name}");
            shapes.insert(name.to_owned(), fields);
        }
        Self(shapes)
    }

    fn check(&self, shape: &str, value: &Value, at: &str, checked: &mut BTreeSet<String>) {
        let fields = self.0.get(shape).unwrap_or_else(|| panic!("{at}: {shape} is not documented"));
        let object = value.as_object().unwrap_or_else(|| panic!("{at}: no object but {value}"));
        let found: BTreeSet<&String> = object.keys().collect();
        assert_eq!(found, fields.keys().collect(), "{at}: found, and documented");
        for (field, types) in fields {
            let (value, at) = (&object[field], format!("{at}.{field}"));
            let fits = types.iter().any(|of| match (of.as_str(), value) {
                ("null", Value::Null) | ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => true,
                ("number", Value::Number(number)) => number.is_u64(),
                (of, Value::Array(items)) => of.strip_prefix("array of ").is_some_and(|of| {
                    items.iter().for_each(|item| match of {
                        "string" => assert!(item.is_string(), "{at}: {item}"),
                        of => self.check(of, item, &at, checked),
                    });
                    true
                }),
                (of, Value::Object(_)) if self.0.contains_key(of) => {
                    self.check(of, value, &at, checked);
                    true
                }
                _ => false,
            });
            assert!(fits, "{at}: expected {types:?}, found {value}");
        }
        checked.insert(shape.to_owned());
    }
}
