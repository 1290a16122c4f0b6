//! An SVG, read as far as tests need it: whether it is well-formed, and what is where in it.

/// A picture that is well-formed.
pub struct Picture {
    elements: Vec<Element>,
    /// What is written in it.
    pub texts: Vec<String>,
}

/// An element by its name, with its attributes.
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Picture {
    /// Reads it, and asserts that all it opens is closed, in one root that is an SVG.
    #[track_caller]
    pub fn read(text: &str) -> Picture {
        assert!(text.starts_with("<svg"), "it begins with {:.40}", text);
        let mut picture = Picture { elements: Vec::new(), texts: Vec::new() };
        let mut open: Vec<String> = Vec::new();
        let mut rest = text;
        while let Some((before, tag)) = rest.split_once('<') {
            picture.write(before, open.is_empty());
            let (tag, after) = tag.split_once('>').expect("a tag ends");
            rest = after;
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name.trim()), "it closes what is open");
                continue;
            }
            let (inner, closed) = tag.strip_suffix('/').map_or((tag, false), |inner| (inner, true));
            let element = Element::read(inner);
            assert!(!open.is_empty() || picture.elements.is_empty(), "a second root: {tag}");
            if !closed {
                open.push(element.name.clone());
            }
            picture.elements.push(element);
        }
        picture.write(rest, true);
        assert_eq!(open, [] as [String; 0], "never closed");
        picture
    }

    /// How many elements of a name there are.
    pub fn count(&self, name: &str) -> usize {
        self.elements.iter().filter(|element| element.name == name).count()
    }

    /// Asserts that all numbers are numbers, and that nothing begins outside of the picture.
    #[track_caller]
    pub fn assert_inside(&self) {
        let root = self.elements.first().expect("there is a root");
        let size = |name: &str| root.number(name).expect("a picture has a size");
        let (width, height) = (size("width"), size("height"));
        for element in &self.elements {
            for (names, most) in
                [(["x", "x1", "x2", "cx"], width), (["y", "y1", "y2", "cy"], height)]
            {
                for number in names.iter().filter_map(|name| element.number(name)) {
                    let (name, attributes) = (&element.name, &element.attributes);
                    assert!((0.0..=most).contains(&number), "{name}: {attributes:?}");
                }
            }
            for (name, value) in &element.attributes {
                assert!(!value.contains("NaN") && !value.contains("inf"), "{name}={value}");
            }
        }
    }

    #[track_caller]
    fn write(&mut self, text: &str, outside: bool) {
        let text = decoded(text.trim());
        assert!(!outside || text.is_empty(), "text outside of the root: {text}");
        if !text.is_empty() {
            self.texts.push(text);
        }
    }
}

impl Element {
    #[track_caller]
    fn read(tag: &str) -> Element {
        let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
        let mut attributes: Vec<(String, String)> = Vec::new();
        while !rest.trim().is_empty() {
            let (attribute, after) = rest.split_once("=\"").expect("an attribute has a value");
            let (value, after) = after.split_once('"').expect("a value ends");
            let attribute = attribute.trim().to_owned();
            assert!(attributes.iter().all(|(name, _)| *name != attribute), "twice: <{tag}>");
            attributes.push((attribute, decoded(value)));
            rest = after;
        }
        Element { name: name.to_owned(), attributes }
    }

    fn number(&self, name: &str) -> Option<f64> {
        let (_, value) = self.attributes.iter().find(|(other, _)| other == name)?;
        Some(value.trim_end_matches("px").parse().unwrap_or_else(|_| panic!("{name}={value}")))
    }
}

/// Text without its entities, of which all have to be known.
#[track_caller]
fn decoded(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entity, rest) = part.split_once(';').unwrap_or_else(|| panic!("a bare & in {text}"));
        plain.push_str(match entity {
            "amp" => "&",
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "apos" | "#39" => "'",
            _ => panic!("an unknown &{entity}; in {text}"),
        });
        plain.push_str(rest);
    }
    plain
}
