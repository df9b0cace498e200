"""Ask kschedctl as an agent would, over the Model Context Protocol: what is pending, why, and what would help?

``pip install 'kschedctl[mcp]'``, then ``python mcp-session.py [ARGUMENTS OF kschedctl mcp]``, such as
``--context prod`` or ``--snapshot prod.ksnap``. Without arguments the built-in demo cluster is asked.
"""

import sys

import anyio
import mcp


async def main() -> None:
    """List the pending pods, explain the first one, and print the fixes for it."""
    source = sys.argv[1:] or ["--demo"]
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "kschedctl", "mcp", *source])
    async with mcp.Client(server) as client:
        tools = await client.list_tools()
        print(f"{len(tools.tools)} tools: {', '.join(tool.name for tool in tools.tools)}\n")

        pending = await ask(client, "list_pending_pods")
        if not pending["pods"]:
            return
        pod = pending["pods"][0]["suchAs"]

        explanation = await ask(client, "explain_pod", pod=pod)
        for cause in explanation["causes"]:
            print(f"  because: {cause['plain']}")

        remedies = await ask(client, "find_remedies", pod=pod)
        for fix in remedies["fixes"]:
            print(f"  fix: {fix['summary']}")


async def ask(client: mcp.Client, tool: str, **arguments: object) -> dict:
    """Call a tool, print its headline, and return its structured answer."""
    answer = await client.call_tool(tool, arguments)
    if answer.is_error:
        sys.exit(answer.content[0].text)
    print(f"{tool} {arguments or ''}: {answer.structured_content['headline']}")
    return answer.structured_content


anyio.run(main)
