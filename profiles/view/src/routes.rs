//! The paths of [`super::Server`]: the file, symbols, source files and assembly code, below the
//! token.
//!
//! Called by the server's thread for each request. Invariant: a path with a wrong token and a path
//! that does not exist get the same answer, after a comparison whose time does not depend on the
//! token.

use std::fs::File;
use std::sync::Arc;

use hyper::header::HeaderValue;
use hyper::{Method, Response, StatusCode};

use super::api::SymbolicationApi;
use profiler_http::{Answer, Answered, BodyWork, Hosts, HttpService, Reply, RequestHead, is_same};
use profiler_http::{
    for_any_origin, for_origin, method_not_allowed, not_found, of_file, preflight, put, status,
    with_type,
};
use profiler_symbols::stack::on_symbol_stack;

/// Limit on the bytes of a request for symbols: 100,000 addresses of a large library need two
/// million.
const LARGEST_SYMBOL_REQUEST: usize = 16 << 20;
/// Limit on the bytes of a request for a source file or for assembly code, which contains two names
/// and a path.
const LARGEST_CODE_REQUEST: usize = 64 << 10;

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ViewResource {
    Profile,
    Api(ApiPath),
}

/// A path of the viewer's [`SymbolicationApi`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApiPath {
    Symbolicate,
    Source,
    Assembly,
}

/// The data that is served.
pub(super) struct ViewRoutes {
    pub(super) token: String,
    pub(super) file: Arc<File>,
    pub(super) is_compressed: bool,
    pub(super) hosts: Hosts,
    /// The origin of the viewer's pages, if it is known.
    pub(super) origin: Option<HeaderValue>,
    pub(super) api: Arc<dyn SymbolicationApi>,
}

impl std::fmt::Debug for ViewRoutes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Omits the token, which is a secret.
        f.debug_struct("ViewRoutes")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl HttpService for ViewRoutes {
    fn answer(&self, request: &RequestHead) -> Answered {
        let resource = self.resource(request);
        let has_token = resource.is_ok();
        let reply = match resource {
            Ok(resource) => self.reply(resource, request),
            Err(refusal) => Reply::Now(status(refusal)),
        };
        Answered { reply, has_token }
    }
}

impl ViewRoutes {
    fn resource(&self, request: &RequestHead) -> Result<ViewResource, StatusCode> {
        if !self.hosts.accept(request) {
            return Err(StatusCode::FORBIDDEN);
        }
        let below = request
            .uri()
            .path()
            .strip_prefix('/')
            .and_then(|path| path.split_once('/'));
        let (token, rest) = below.ok_or(StatusCode::NOT_FOUND)?;
        match rest {
            _ if !is_same(token, &self.token) => Err(StatusCode::NOT_FOUND),
            super::link::PROFILE => Ok(ViewResource::Profile),
            super::link::SYMBOLICATE => Ok(ViewResource::Api(ApiPath::Symbolicate)),
            super::link::SOURCE => Ok(ViewResource::Api(ApiPath::Source)),
            super::link::ASSEMBLY => Ok(ViewResource::Api(ApiPath::Assembly)),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }

    fn reply(&self, resource: ViewResource, request: &RequestHead) -> Reply {
        let response = match (resource, request.method()) {
            (_, &Method::OPTIONS) => preflight(request, "GET, HEAD, POST, OPTIONS"),
            (ViewResource::Profile, &Method::GET | &Method::HEAD) => self.profile(),
            (ViewResource::Profile, _) => method_not_allowed("GET, HEAD, OPTIONS"),
            (ViewResource::Api(path), &Method::POST) => {
                return Reply::AfterBody(self.api_work(path));
            }
            (ViewResource::Api(_), _) => method_not_allowed("POST, OPTIONS"),
        };
        Reply::Now(readable(response, self.origin.clone()))
    }

    fn profile(&self) -> Response<Answer> {
        let Some(mut response) = of_file(Arc::clone(&self.file), "application/json") else {
            return not_found();
        };
        if self.is_compressed {
            put(&mut response, &[("content-encoding", "gzip")]);
        }
        response
    }

    fn api_work(&self, path: ApiPath) -> BodyWork {
        let api = Arc::clone(&self.api);
        let file = Arc::clone(&self.file);
        let origin = self.origin.clone();
        let work = move |body: Vec<u8>| readable(answer(&*api, path, &file, &body), origin);
        BodyWork {
            limit: match path {
                ApiPath::Symbolicate => LARGEST_SYMBOL_REQUEST,
                ApiPath::Source | ApiPath::Assembly => LARGEST_CODE_REQUEST,
            },
            work: Box::new(work),
        }
    }
}

/// Allows the pages of the viewer to read the answer. If their origin is unknown, allows all pages:
/// the token in the path, which only its user knows, then protects it alone.
fn readable(response: Response<Answer>, origin: Option<HeaderValue>) -> Response<Answer> {
    match origin {
        Some(origin) => for_origin(response, origin),
        None => for_any_origin(response),
    }
}

fn answer(api: &dyn SymbolicationApi, path: ApiPath, file: &File, body: &[u8]) -> Response<Answer> {
    let Ok(request) = std::str::from_utf8(body) else {
        return status(StatusCode::BAD_REQUEST);
    };
    let answer = || match path {
        ApiPath::Symbolicate => api.symbolicate(file, request),
        ApiPath::Source => api.source(file, request),
        ApiPath::Assembly => api.assembly(file, request),
    };
    match on_symbol_stack(answer) {
        Ok(Some(answer)) => with_type(Answer::from(answer.into_bytes()), "application/json"),
        Ok(None) => status(StatusCode::BAD_REQUEST),
        Err(_) => status(StatusCode::INTERNAL_SERVER_ERROR),
    }
}
