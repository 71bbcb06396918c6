"""The HTTP interface of ClickHouse, as far as fathom uses it, in front of chdb."""
import http.server, os, sys, tempfile, urllib.parse
from chdb import session

database = session.Session(sys.argv[2])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get("query")
        try:
            if query:
                with tempfile.NamedTemporaryFile() as rows:
                    rows.write(body)
                    rows.flush()
                    insert, form = query[0].rsplit(" FORMAT ", 1)
                    answer = database.query(f"{insert} FROM INFILE '{rows.name}' FORMAT {form}")
            else:
                answer = database.query(body.decode(), "TabSeparated")
            self.answer(200, answer.bytes())
        except Exception as error:
            self.answer(500, str(error).encode())

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        pass

host, port = sys.argv[1].rsplit(":", 1)
http.server.HTTPServer((host, int(port)), Handler).serve_forever()
