//! The language of the scripts: syntax only, without the meaning of calls.
//!
//! ```text
//! # A comment.
//! [=mapped]                          a block of lines that scripts include with `use mapped`
//! [import.kind.{k}] k = 0 1 9        three scripts, in which {k} is 0, 1 and 9
//! env NAME VALUE                     for the script's process
//! file f 65536                       a step: a verb and its words
//! hipInit(0)                         a step: a call
//! ```

use std::collections::BTreeMap;

/// One script, which runs in a separate process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// `group.name`.
    pub(crate) name: String,
    /// The environment of its process.
    pub(crate) environment: Vec<(String, String)>,
    /// Its steps, one line each.
    pub(crate) steps: Vec<String>,
}

/// Named values; those of calls and arrays have no names.
pub(crate) type Fields = Vec<(String, Expression)>;

/// An argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    /// `7`, `-1`, `0x1000`, `null`.
    Number(u64),
    /// `name` or `name+8`.
    Variable(String, u64),
    /// `&name`: the target of an output of the call.
    Out(String),
    /// `"text"`.
    Text(String),
    /// `@name`: a function of the host.
    Function(String),
    /// `kind(field=value, ...)`: a struct, or `array(value, ...)`.
    Made(String, Fields),
}

/// A call: a function and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) arguments: Vec<Expression>,
}

/// The scripts of a file.
pub(crate) fn scripts(text: &str) -> Result<Vec<Script>, String> {
    let mut blocks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix('['), sections.last_mut()) {
            (Some(header), _) => sections.push((header, Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => return Err(format!("before the first script: {line}")),
        }
    }
    let mut scripts = Vec::new();
    for (header, lines) in sections {
        let (name, parameter) = header.split_once(']').ok_or_else(|| format!("no ] in [{header}"))?;
        let lines = included(&lines, &blocks)?;
        if let Some(block) = name.strip_prefix('=') {
            blocks.insert(block, lines);
            continue;
        }
        let (key, values) = parameter.split_once('=').unwrap_or(("", "."));
        let key = format!("{{{}}}", key.trim());
        for value in values.split_whitespace() {
            let filled = |text: &str| text.replace(&key, value);
            scripts.push(script(filled(name), lines.iter().map(|line| filled(line)).collect())?);
        }
    }
    Ok(scripts)
}

/// The lines of a section, with the blocks that it includes.
fn included<'a>(lines: &[&'a str], blocks: &BTreeMap<&str, Vec<&'a str>>) -> Result<Vec<&'a str>, String> {
    let mut all = Vec::new();
    for line in lines {
        match line.strip_prefix("use ") {
            Some(block) => all.extend(blocks.get(block).ok_or_else(|| format!("no block {block}"))?),
            None => all.push(*line),
        }
    }
    Ok(all)
}

fn script(name: String, lines: Vec<String>) -> Result<Script, String> {
    let (mut environment, mut steps) = (Vec::new(), Vec::new());
    for line in lines {
        match line.strip_prefix("env ").map(|pair| pair.split_once(' ')) {
            None => steps.push(line),
            Some(Some((name, value))) => environment.push((name.to_owned(), value.to_owned())),
            Some(None) => return Err(format!("{name}: {line}")),
        }
    }
    Ok(Script { name, environment, steps })
}

/// A call, if the line is one.
pub(crate) fn call(line: &str) -> Result<Option<Call>, String> {
    let end = line.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(line.len());
    if !line[end..].starts_with('(') {
        return Ok(None);
    }
    match Reader(line).value()? {
        (Expression::Made(function, arguments), "") => {
            let arguments = arguments.into_iter().map(|(_, argument)| argument).collect();
            Ok(Some(Call { function, arguments }))
        }
        _ => Err(format!("not a call: {line}")),
    }
}

/// A single value.
pub(crate) fn value(text: &str) -> Result<Expression, String> {
    match Reader(text).value()? {
        (value, "") => Ok(value),
        (_, rest) => Err(format!("{rest} after the value in {text}")),
    }
}

/// A number: decimal, hexadecimal or negative.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned)),
    }
}

/// The rest of a line.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a str);

impl<'a> Reader<'a> {
    /// A value, and the text after it.
    fn value(self) -> Result<(Expression, &'a str), String> {
        let text = self.0;
        if let Some(rest) = text.strip_prefix('"') {
            let (inside, rest) = rest.split_once('"').ok_or_else(|| format!("no end of {text}"))?;
            return Ok((Expression::Text(inside.to_owned()), rest));
        }
        let start = text.find(|letter: char| !"&@-".contains(letter)).unwrap_or(text.len());
        let word = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
        let end = text[start..].find(|letter| !word(letter)).map_or(text.len(), |length| start + length);
        let (word, rest) = text.split_at(end);
        if word.is_empty() {
            return Err(format!("no value in {text:?}"));
        }
        if let Some(name) = word.strip_prefix('&') {
            return Ok((Expression::Out(name.to_owned()), rest));
        }
        if let Some(name) = word.strip_prefix('@') {
            return Ok((Expression::Function(name.to_owned()), rest));
        }
        if let Some(number) = if word == "null" { Some(0) } else { number(word) } {
            return Ok((Expression::Number(number), rest));
        }
        if let Some(rest) = rest.strip_prefix('(') {
            let (fields, rest) = Reader(rest).fields()?;
            return Ok((Expression::Made(word.to_owned(), fields), rest));
        }
        let Some(rest) = rest.strip_prefix('+') else { return Ok((Expression::Variable(word.to_owned(), 0), rest)) };
        match Reader(rest).value()? {
            (Expression::Number(offset), rest) => Ok((Expression::Variable(word.to_owned(), offset), rest)),
            _ => Err(format!("not an offset: {rest}")),
        }
    }

    /// The content of parentheses, with or without names.
    fn fields(self) -> Result<(Fields, &'a str), String> {
        let (mut fields, mut text) = (Vec::new(), self.0.trim_start());
        while !text.starts_with(')') {
            let named = text.split_once('=').filter(|(name, _)| {
                !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
            });
            let (name, from) = named.unwrap_or(("", text));
            let (value, rest) = Reader(from).value()?;
            fields.push((name.to_owned(), value));
            text = rest.trim_start();
            text = text.strip_prefix(',').map_or(text, str::trim_start);
            if text.is_empty() {
                return Err(format!("no ) in {}", self.0));
            }
        }
        Ok((fields, &text[1..]))
    }
}
