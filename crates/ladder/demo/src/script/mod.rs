//! The script engine with its limits and functions.
//!
//! Invariant: a script can use only the registered functions. It cannot load other files, evaluate
//! text, print, or run without end.

pub(crate) mod context;
mod database;
mod functions;
pub(crate) mod object;

use crate::limits;
use context::Context;
use rhai::{AST, CallFnOptions, Dynamic, Engine, EvalAltResult, FuncArgs, Scope};
use std::sync::Arc;

/// An engine whose functions work on `context`.
pub(crate) fn engine(context: &Arc<Context>) -> Engine {
    let mut engine = Engine::new();
    engine
        .set_max_operations(limits::OPERATIONS_MAX)
        .set_max_call_levels(limits::CALLS_MAX)
        .set_max_expr_depths(limits::EXPRESSION_DEPTH_MAX, limits::EXPRESSION_DEPTH_MAX)
        .set_max_string_size(limits::STRING_BYTES_MAX)
        .set_max_array_size(limits::COLLECTION_MAX)
        .set_max_map_size(limits::COLLECTION_MAX)
        .set_max_modules(0)
        .set_max_strings_interned(limits::STRINGS_SHARED_MAX)
        .disable_symbol("eval")
        .disable_symbol("import")
        .on_print(|_| {})
        .on_debug(|_, _, _| {});
    database::register(&mut engine, context);
    functions::register(&mut engine, context);
    engine
}

/// Calls a function of the program.
///
/// # Errors
/// The script's error. Its position is the line in the file that contains the function.
pub(crate) fn call(
    engine: &Engine,
    ast: &AST,
    function: &str,
    arguments: impl FuncArgs,
) -> Result<Dynamic, Box<EvalAltResult>> {
    // The files contain only functions, so nothing has to be evaluated before the call.
    let options = CallFnOptions::new().eval_ast(false);
    engine.call_fn_with_options(options, &mut Scope::new(), ast, function, arguments)
}

#[cfg(test)]
mod tests {
    use super::context::{Context, Shared};
    use super::{call, engine};
    use crate::cache::Caches;
    use crate::content::SCHEMA;
    use crate::counters::Counters;
    use crate::scripts::Scripts;
    use crate::switches::Switches;
    use clock::{ManualClock, Timestamp};
    use rhai::Dynamic;
    use rusqlite::Connection;
    use std::sync::Arc;

    fn context() -> Arc<Context> {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        let shared = Arc::new(Shared {
            clock: Arc::new(ManualClock::at(Timestamp::from_secs(1_000))),
            counters: Counters::default(),
            caches: Caches::default(),
            secret: "secret".into(),
            parse_time: false,
        });
        let context = Arc::new(Context::new(shared, connection));
        context.begin(Switches { page_cache: true, objects: true, ..Switches::default() });
        context
    }

    fn run(context: &Arc<Context>, script: &str) -> Result<Dynamic, String> {
        let engine = engine(context);
        let ast = engine.compile(script).map_err(|error| error.to_string())?;
        call(&engine, &ast, "f", ()).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_bound_and_never_become_sql() {
        let context = context();
        let name = r#""x'); DELETE FROM locales; --""#;
        let script = format!(
            r#"fn f() {{
                db_exec("INSERT INTO locales VALUES (?, ?)", ["other", "stays"]);
                db_exec("INSERT INTO locales VALUES (?, ?)", [{name}, ()  ?? "m"]);
                db_value("SELECT count(*) FROM locales WHERE source = ?", [{name}])
                    + db_rows("SELECT * FROM locales", []).len()
            }}"#
        );
        assert_eq!(run(&context, &script).unwrap().as_int(), Ok(3));
        assert_eq!(context.snapshot().queries, 4);
    }

    #[test]
    fn failed_script_leaves_no_transaction_open() {
        let context = context();
        let script = r#"fn f() { db_begin(); db_exec("INSERT INTO role VALUES (9, 'x')", []); throw "no"; }"#;
        assert!(run(&context, script).is_err());
        context.end();
        let roles = run(&context, r#"fn f() { db_value("SELECT count(*) FROM role", []) }"#);
        assert_eq!(roles.unwrap().as_int(), Ok(0));
    }

    #[test]
    fn response_with_a_cookie_is_not_shared() {
        let context = context();
        let directory = tempfile::tempdir().unwrap();
        let scripts = Scripts::install(directory.path().to_owned()).unwrap();
        let engine = engine(&context);
        let counters = &context.shared.counters;
        let core = scripts.core(false, &engine, counters).unwrap();
        let mut program = scripts.whole(&core, false, &engine, counters).unwrap().ast.as_ref().clone();
        let script = r#"fn answer(cookie) {
            settings_init();
            set_state("variables", object());
            set_state("response", object(#{ headers: [], cookies: [] }));
            if cookie { response_cookie("MISSION", "x", 60); }
            let request = object(#{ method: "GET", cookies: #{}, raw_path: "/", raw_query: "" });
            let page = delivery_finish(request, #{ status: 200, body: "page", type: "text/html" });
            ["Cache-Control", "private, no-store"] in page.headers && page_find("/") == ()
        }"#;
        program.combine(engine.compile(script).unwrap());
        let kept_for_one =
            |cookie: bool| call(&engine, &program, "answer", (cookie,)).unwrap().as_bool().unwrap();
        assert!(kept_for_one(true));
        assert!(!kept_for_one(false));
    }

    #[test]
    fn scripts_cannot_run_endlessly_or_load_code() {
        let context = context();
        for script in
            ["fn f() { loop {} }", "fn f() { f() }", r#"fn f() { eval("1") }"#, r#"fn f() { import "x"; }"#]
        {
            assert!(run(&context, script).is_err(), "{script}");
        }
    }

    #[test]
    fn cached_pages_and_values_last_until_their_tag_is_cleared() {
        let context = context();
        let script = r#"fn f() {
            page_keep("/", "body", "{}", ["node:1"], 60);
            memory_set("views", "front", [1, #{ a: 2 }], ["node:2"], 60);
            let before = page_find("/").body == "body" && memory_get("views", "front")[1].a == 2;
            cache_invalidate(["node:1"]);
            before && page_find("/") == () && memory_get("views", "front") != ()
        }"#;
        assert!(run(&context, script).unwrap().as_bool().unwrap());
    }
}
