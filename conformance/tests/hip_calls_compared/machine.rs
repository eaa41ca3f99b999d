//! The process of one script: executes its steps with a library that has HIP's interface, and prints the results.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use gpu_interop_kernels::CODE_OBJECTS;
use libloading::os::unix::Library;

use crate::language::{Call, Expression, Script};
use crate::memory::{File, hex};
use crate::{language, memory};

/// Prefix of every result in the output, because a runtime may print, too.
pub(crate) const ANSWER: &str = "=> ";
/// The last result of a complete script.
pub(crate) const END: &str = "end";
/// Time limit at the end for a call that did not return in time.
const LATE: Duration = Duration::from_millis(300);

/// The type of all HIP functions. Every argument is a number of at most 64 bits or a pointer, which the C calling
/// conventions of x86-64 and AArch64 pass in a 64-bit register or stack slot, whatever its width; a function reads as
/// many as it has.
type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;
const ARGUMENTS: usize = 12;

/// The result of a step, or the reason why it cannot be executed.
type Step<T> = Result<T, String>;

struct Machine {
    library: &'static Library,
    /// The runtime's major version, which determines the structs.
    major: u32,
    variables: HashMap<String, u64>,
    files: HashMap<String, File>,
    /// Calls that had not returned at the time limit.
    late: Vec<Receiver<(Ready, u64)>>,
}

/// A prepared call.
struct Ready {
    function: Function,
    arguments: [u64; ARGUMENTS],
    /// Its outputs, and the variables that receive them.
    results: Vec<(String, u64)>,
}

impl Ready {
    fn run(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.arguments;
        // SAFETY: a HIP function by its name, with its arguments: pointers are valid as long as the process, or invalid
        // because the script tests that. A crash ends the process, and is the result.
        unsafe { (self.function)(a, b, c, d, e, f, g, h, i, j, k, l) }
    }
}

/// The status returned by a call.
fn status(returned: u64) -> u32 {
    u32::try_from(returned & u64::from(u32::MAX)).expect("32 bits")
}

pub(crate) fn run(script: &Script, library: &OsStr, major: u32) -> Step<()> {
    // SAFETY: a library of this workspace, or the file that the user named as AMD's runtime.
    let library = unsafe { Library::new(library) }.map_err(|error| error.to_string())?;
    let library = Box::leak(Box::new(library));
    let mut machine = Machine { library, major, variables: HashMap::new(), files: HashMap::new(), late: Vec::new() };
    for step in &script.steps {
        if let Some(answer) = machine.step(step).map_err(|error| format!("{step}: {error}"))? {
            say(&answer);
        }
    }
    // The effect of a pending call is part of the result: a process that it crashes does not exit successfully.
    machine.late.iter().for_each(|ended| drop(ended.recv_timeout(LATE)));
    say(END);
    Ok(())
}

fn say(answer: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{ANSWER}{answer}").and_then(|()| output.flush()).expect("an output");
}

impl Machine {
    /// Executes one step and returns its result, if any.
    fn step(&mut self, step: &str) -> Step<Option<String>> {
        if let Some(call) = language::call(step)? {
            let Some(ready) = self.ready(&call)? else { return Ok(Some("no such function".into())) };
            let returned = ready.run();
            return Ok(Some(self.answer(&ready, returned)));
        }
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (verb, words.as_slice()) {
            ("file", [name, size]) => self.open(verb, name, number(size)?),
            ("pipe" | "nothing" | "folder" | "closed", [name]) => self.open(verb, name, 0),
            ("host", [name, size]) => {
                let size = usize::try_from(number(size)?).map_err(|error| error.to_string())?;
                self.variables.insert((*name).into(), memory::keep(&vec![0; size]));
                Ok(None)
            }
            ("fd", [name]) => Ok(Some(self.file(name)?.state())),
            ("seek", [name, position]) => {
                self.file(name)?.seek(number(position)?);
                Ok(None)
            }
            ("data", [name, size]) => {
                Ok(Some(self.file(name)?.changes(usize::try_from(number(size)?).map_err(|error| error.to_string())?)))
            }
            ("put32" | "put64", [at, value]) => {
                memory::put(self.value(at)?, if verb == "put32" { 4 } else { 8 }, self.value(value)?);
                Ok(None)
            }
            ("see", [at, length]) => {
                let length = usize::try_from(number(length)?).map_err(|error| error.to_string())?;
                Ok(Some(hex(&memory::bytes(self.value(at)?, length))))
            }
            ("string", [at]) => Ok(Some(memory::text(self.value(at)?))),
            ("value", [name]) => Ok(Some(self.value(name)?.to_string())),
            ("apart", [one, other]) => {
                Ok(Some(self.value(one)?.wrapping_sub(self.value(other)?).cast_signed().to_string()))
            }
            ("sleep", [time]) => {
                std::thread::sleep(Duration::from_millis(number(time)?));
                Ok(None)
            }
            ("until", [limit, at, width, value]) => {
                let (width, limit) = (if *width == "4" { 4 } else { 8 }, Duration::from_millis(number(limit)?));
                let seen = memory::becomes(self.value(at)?, width, number(value)?, limit);
                Ok(Some(if seen { "seen" } else { "not seen" }.into()))
            }
            ("within", [limit, ..]) => {
                let limit = Duration::from_millis(number(limit)?);
                self.elsewhere(rest.split_once(' ').map_or("", |(_, call)| call), Some(limit))
            }
            ("thread", _) => self.elsewhere(rest, None),
            ("text", _) => {
                let call = language::call(rest)?.ok_or("no call")?;
                let Some(ready) = self.ready(&call)? else { return Ok(Some("no such function".into())) };
                let returned = ready.run();
                Ok(Some(if returned == 0 { "null".into() } else { memory::text(returned) }))
            }
            ("exit", []) => std::process::exit(0),
            _ => Err("not a step".into()),
        }
    }

    fn open(&mut self, kind: &str, name: &str, size: u64) -> Step<Option<String>> {
        let number = match memory::open_file(kind, usize::try_from(size).map_err(|error| error.to_string())?) {
            Ok(file) => {
                let number = file.number();
                self.files.insert(name.into(), file);
                number
            }
            Err(number) => number,
        };
        self.variables.insert(name.into(), number);
        Ok(None)
    }

    fn file(&self, name: &str) -> Step<&File> {
        self.files.get(name).ok_or_else(|| format!("no file {name}"))
    }

    /// Makes a call on another thread, and waits for it up to a limit.
    fn elsewhere(&mut self, call: &str, limit: Option<Duration>) -> Step<Option<String>> {
        let call = language::call(call)?.ok_or("no call")?;
        let Some(ready) = self.ready(&call)? else { return Ok(Some("no such function".into())) };
        let (end, ended) = channel();
        std::thread::spawn(move || {
            let returned = ready.run();
            // The limit may have elapsed.
            let _ = end.send((ready, returned));
        });
        let returned = match limit {
            None => ended.recv().ok(),
            Some(limit) => ended.recv_timeout(limit).ok(),
        };
        let Some((ready, returned)) = returned else {
            self.late.push(ended);
            return Ok(Some("does not return".into()));
        };
        Ok(Some(self.answer(&ready, returned)))
    }

    /// The status of a call, and its outputs.
    fn answer(&mut self, ready: &Ready, returned: u64) -> String {
        let mut answer = status(returned).to_string();
        for (name, cell) in &ready.results {
            let (what, value) = memory::result(*cell);
            answer = format!("{answer} {name} {what}");
            self.variables.insert(name.clone(), value);
        }
        answer
    }

    /// Looks up a function, and evaluates its arguments.
    fn ready(&mut self, call: &Call) -> Step<Option<Ready>> {
        // SAFETY: every HIP function is compatible with the type, as its documentation states.
        let Ok(function) = (unsafe { self.library.get::<Function>(call.function.as_bytes()) }) else {
            // Outputs of a missing function are null.
            let outs = call.arguments.iter().filter_map(|argument| match argument {
                Expression::Out(name) => Some((name.clone(), 0)),
                _ => None,
            });
            self.variables.extend(outs);
            return Ok(None);
        };
        let (mut arguments, mut results) = ([0; ARGUMENTS], Vec::new());
        for (argument, expression) in arguments.iter_mut().zip(&call.arguments) {
            *argument = self.evaluate(expression)?;
            if let Expression::Out(name) = expression {
                results.push((name.clone(), *argument));
            }
        }
        Ok(Some(Ready { function: *function, arguments, results }))
    }

    fn value(&self, text: &str) -> Step<u64> {
        self.evaluate(&language::value(text)?)
    }

    fn evaluate(&self, expression: &Expression) -> Step<u64> {
        Ok(match expression {
            Expression::Number(number) => *number,
            Expression::Variable(name, offset) => {
                let value = self.variables.get(name).ok_or_else(|| format!("no variable {name}"))?;
                value.wrapping_add(*offset)
            }
            Expression::Out(_) => memory::cell(),
            Expression::Text(text) => memory::keep(&[text.as_bytes(), b"\0"].concat()),
            Expression::Function(name) => memory::function(name).ok_or_else(|| format!("no function {name}"))?,
            Expression::Made(kind, fields) => memory::keep(&self.make(kind, fields)?),
        })
    }

    /// The bytes of a struct, of an array, or of a code object.
    fn make(&self, kind: &str, fields: &[(String, Expression)]) -> Step<Vec<u8>> {
        match kind {
            "array" => {
                let element = |(_, value): &(String, Expression)| match value {
                    Expression::Made(kind, fields) => self.make(kind, fields),
                    value => Ok(self.evaluate(value)?.to_le_bytes().to_vec()),
                };
                return Ok(fields.iter().map(element).collect::<Step<Vec<_>>>()?.concat());
            }
            // The arguments of a kernel launch: a pointer to each.
            "arguments" => {
                let pointer = |(_, value): &(String, Expression)| {
                    Ok(memory::keep(&self.evaluate(value)?.to_le_bytes()).to_le_bytes().to_vec())
                };
                return Ok(fields.iter().map(pointer).collect::<Step<Vec<_>>>()?.concat());
            }
            "code" => return code(fields),
            _ => {}
        }
        let layout = memory::layout(kind, self.major).ok_or_else(|| format!("no struct {kind}"))?;
        let field = |(name, value): &(String, Expression)| Ok((name.clone(), self.evaluate(value)?));
        layout.bytes(&fields.iter().map(field).collect::<Step<Vec<_>>>()?)
    }
}

/// A code object by its target, with the named sections renamed.
fn code(fields: &[(String, Expression)]) -> Step<Vec<u8>> {
    let mut texts = fields.iter().map(|(_, value)| match value {
        Expression::Text(text) => Ok(text.as_str()),
        value => Err(format!("not a text: {value:?}")),
    });
    let target = texts.next().ok_or("no target")??;
    let (_, object) = CODE_OBJECTS.iter().find(|(name, _)| *name == target).ok_or("no such code object")?;
    let mut object = object.to_vec();
    for section in texts {
        let name = format!("\0{}\0", section?);
        let at = object.windows(name.len()).position(|part| part == name.as_bytes()).ok_or("no such section")?;
        object[at + 1] = b'x';
    }
    Ok(object)
}

fn number(text: &str) -> Step<u64> {
    language::number(text).ok_or_else(|| format!("not a number: {text}"))
}
