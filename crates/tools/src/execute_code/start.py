import json, os, socket, sys, types
s = socket.socket(fileno=os.dup(0))
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
r = s.makefile("rb")
m = json.loads(r.readline())
t = sys.modules["agent_tools"] = types.ModuleType("agent_tools")
exec(compile(m["module"], "agent_tools.py", "exec"), t.__dict__)
t._run(s, r, m)
