"""A spec without a fault, and for each rule a change that breaks it."""

from __future__ import annotations

GOOD = """\
specVersion: v2
specMinorVersion: 2
meta:
    name: My-Project
    image: project-my-project
    description: ""
    labels: []
    createdOn: "2025-01-31T12:00:00Z"
    defaultBranch: main
layout:
    - path: code/
      type: code
      storage: git
    - path: models/
      type: models
      storage: gitlfs
environment:
    base:
        registry: nvcr.io
        image: nvidia/ai-workbench/python-basic:1.0.9
        build_timestamp: "20260112183658"
        name: Python Basic
        supported_architectures: []
        cuda_version: ""
        description: A Python Base
        entrypoint_script: ""
        labels: []
        apps:
            - name: jupyterlab
              type: jupyterlab
              class: webapp
              start_command: jupyter lab --port 8888 --ip 0.0.0.0 --NotebookApp.base_url=\\$PROXY_PREFIX
              health_check_command: '[ \\$(curl -o /dev/null -s -w ''%{http_code}'' localhost:8888) == ''200'' ]'
              stop_command: jupyter lab stop 8888
              user_msg: ""
              logfile_path: ""
              timeout_seconds: 60
              icon_url: ""
              webapp_options:
                autolaunch: true
                port: "8888"
                proxy:
                    trim_prefix: false
                url_command: jupyter lab list | head -n 2
        programming_languages:
            - python3
        icon_url: ""
        image_version: 1.0.9
        os: linux
        os_distro: ubuntu
        os_distro_release: "22.04"
        schema_version: v2
        user_info:
            uid: ""
            gid: ""
            username: ""
        package_managers:
            - name: pip
              binary_path: /usr/bin/pip
              installed_packages: []
        package_manager_environment:
            name: ""
            target: ""
    compose_file_path: ""
execution:
    apps:
        - name: chat
          type: custom
          class: webapp
          start_command: cd /project/code && PROXY_PREFIX=$PROXY_PREFIX python3 -m chat
          health_check_command: curl -f http://localhost:8080/ok
          stop_command: pkill -f '^python3 -m chat'
          user_msg: ""
          logfile_path: ""
          timeout_seconds: 60
          icon_url: ""
          webapp_options:
            autolaunch: true
            port: "8080"
            proxy:
                trim_prefix: false
            url: http://localhost:8080/
        - name: fetch
          type: custom
          class: process
          start_command: python3 -m fetch
          health_check_command: pgrep -f '^python3 -m fetch'
          stop_command: pkill -f '^python3 -m fetch'
          user_msg: ""
          logfile_path: ""
          timeout_seconds: 3600
          icon_url: ""
          process_options:
            wait_until_finished: true
    resources:
        gpu:
            requested: 0
        sharedMemoryMB: 1024
    secrets:
        - variable: NVIDIA_API_KEY
          description: Key of build.nvidia.com (starts with "nvapi-")
    mounts:
        - type: project
          target: /project/
          description: Project directory
          options: rw
        - type: host
          target: /project/data/input/
          description: Data
          options: ""
        - type: volume
          target: /data/
          description: ""
          options: volumeName=cache
"""

PORT = '            port: "8080"'
START = "start_command: cd /project/code && PROXY_PREFIX=$PROXY_PREFIX python3 -m chat"
PROCESS = "process_options:\n            wait_until_finished"
STOP = "stop_command: pkill -f '^python3 -m chat'"

# (rule, severity, text to replace, replacement). The finding must stand on the line of the replacement's mark @, or,
# without one, on the first line that differs from the good file; what is missing is told at the key around it.
CASES = [
    ("duplicate-key", "error", "    labels: []\n    createdOn", "    labels: []\n@    labels: []\n    createdOn"),
    ("merge-conflict", "error", "    - path: models/", "<<<<<<< HEAD\n    - path: models/"),
    ("merge-conflict", "error", "    - path: models/", ">>>>>>> theirs\n    - path: models/"),
    ("invalid-escape", "error", 'description: ""\n    labels', 'description: "a\\(b"\n    labels'),
    ("invalid-escape", "error", "start_command: python3 -m fetch", 'start_command: "echo \\$HOME"'),
    ("yaml-syntax", "error", "    labels: []\n    createdOn", "    labels: []\n@      createdOn"),
    ("yaml-syntax", "error", "    labels: []\n    createdOn", "    labels: []\n@\tcreatedOn"),
    ("yaml-syntax", "error", "description: A Python Base", "description: A Base: with Python"),
    ("comment", "warning", "meta:\n", "# a comment\nmeta:\n"),
    ("comment", "warning", "    defaultBranch: main", "    defaultBranch: main  # the branch"),
    ("unknown-key", "warning", "    defaultBranch: main", "    defaultBranch: main\n@    branch: main"),
    ("unknown-key", "warning", "layout:\n", "mounts: []\nlayout:\n"),
    ("wrong-type", "error", "            requested: 0", "            requested: one"),
    ("wrong-type", "error", "            requested: 0", '            requested: "1"'),
    ("wrong-type", "error", "sharedMemoryMB: 1024", "sharedMemoryMB: 1.5"),
    ("wrong-type", "error", "timeout_seconds: 3600", "timeout_seconds: soon"),
    ("wrong-type", "error", "            autolaunch: true\n" + PORT, "            autolaunch: maybe\n" + PORT),
    ("wrong-type", "error", "specMinorVersion: 2", "specMinorVersion: two"),
    ("wrong-type", "error", "    labels: []\n    createdOn", "    labels: none\n    createdOn"),
    ("spec-version", "error", "specVersion: v2", "specVersion: v3"),
    ("spec-version", "error", "specVersion: v2\n", "@"),
    ("old-version", "warning", "specVersion: v2", "specVersion: v1"),
    ("spec-minor", "error", "specMinorVersion: 2", "specMinorVersion: 3"),
    ("spec-minor", "error", "specMinorVersion: 2", "specMinorVersion: -1"),
    ("newer-field", "warning", "specMinorVersion: 2\n", "specMinorVersion: 1\n"),
    ("old-field", "warning", '            username: ""', '            username: ""\n@            is_root: null'),
    ("meta-name", "error", "    name: My-Project\n", ""),
    ("meta-name", "error", "name: My-Project", "name: my project"),
    ("image-name", "warning", "image: project-my-project", "image: my-project"),
    ("created-on", "warning", '"2025-01-31T12:00:00Z"', "now"),
    ("layout-type", "error", "type: models", "type: project"),
    ("layout-storage", "error", "storage: gitlfs", "storage: lfs"),
    ("layout-path", "error", "path: models/", "path: ../models/"),
    ("layout-slash", "warning", "path: models/", "path: models"),
    ("base-missing", "error", "        registry: nvcr.io\n", ""),
    ("base-missing", "error", "        image: nvidia/ai-workbench/python-basic:1.0.9\n", ""),
    ("base-os", "error", "        os_distro: ubuntu\n", ""),
    ("base-os", "error", "        os: linux\n", ""),
    ("base-os", "error", 'os_distro_release: "22.04"', 'os_distro_release: ""'),
    ("registry-repeated", "error", "image: nvidia/ai-workbench", "image: nvcr.io/nvidia/ai-workbench"),
    ("image-tag", "warning", "python-basic:1.0.9", "python-basic"),
    ("image-tag", "warning", "python-basic:1.0.9", "python-basic:latest"),
    ("base-description", "warning", "description: A Python Base", 'description: ""'),
    ("schema-version", "error", "schema_version: v2", "schema_version: v1"),
    ("schema-version", "warning", "schema_version: v2", 'schema_version: ""'),
    ("build-timestamp", "warning", '"20260112183658"', "2026-01-12"),
    ("user-id", "warning", '            uid: ""', "            uid: me"),
    ("compose-absolute", "error", 'compose_file_path: ""', "compose_file_path: /project/compose.yaml"),
    ("compose-hyphen", "error", 'compose_file_path: ""', 'compose-file-path: ""'),
    ("app-incomplete", "error", "- name: fetch\n          type: custom\n", "@- name: fetch\n"),
    ("app-incomplete", "error", "- name: fetch\n          type: custom", "- type: custom"),
    ("app-class", "error", "class: process", "class: compose"),
    ("app-type", "warning", "type: custom\n          class: process", "type: fastapi\n          class: process"),
    ("app-twice", "error", "- name: fetch", "- name: chat"),
    ("app-port", "error", PORT, "@            port: 8080"),
    ("app-port", "error", PORT, '            port: "80800"'),
    ("app-port", "error", PORT + "\n", ""),
    ("app-url", "error", "url: http://localhost:8080/\n", "url: http://localhost:8080/\n@            url_command: x\n"),
    ("app-options", "warning", PROCESS, "webapp_options:\n@            autolaunch"),
    ("app-options", "warning", "8080/\n", "8080/\n          process_options:\n@            wait_until_finished: no\n"),
    ("app-no-start", "warning", START, 'start_command: ""'),
    ("url-slash", "warning", "url: http://localhost:8080/", "url: http://localhost:8080"),
    ("url-slash", "warning", "url: http://localhost:8080/", "url: http://localhost:8080/docs"),
    ("url-port", "warning", "url: http://localhost:8080/", "url: http://localhost:8081/"),
    ("port-differs", "warning", START, "start_command: python3 -m chat --port 8081 --prefix $PROXY_PREFIX"),
    ("same-port", "warning", PORT + "\n", '            port: "8888"\n'),
    ("negative", "error", "timeout_seconds: 3600", "timeout_seconds: -1"),
    ("negative", "error", "            requested: 0", "            requested: -1"),
    ("negative", "error", "sharedMemoryMB: 1024", "sharedMemoryMB: -1"),
    ("sudo-in-app", "warning", "start_command: python3 -m fetch", "start_command: sudo apt-get install x"),
    ("mixed-dollar", "warning", START, "start_command: run $HOME/chat \\$PROXY_PREFIX"),
    ("pkill-self", "warning", STOP, "stop_command: pkill -f 'python3 -m chat'"),
    ("pkill-self", "warning", STOP, "stop_command: stop it && pkill -f chat -9"),
    ("bound-to-loopback", "warning", START, "start_command: chat --host 127.0.0.1 --path $PROXY_PREFIX"),
    ("bound-to-loopback", "warning", START, "start_command: streamlit run x --server.address=localhost"),
    ("prefix-lost", "warning", START, "start_command: cd /project/code && python3 -m chat"),
    ("prefix-lost", "warning", START, "start_command: cd code; bash -c 'chat --prefix $PROXY_PREFIX'"),
    ("secret-name", "error", "variable: NVIDIA_API_KEY", "variable: NVIDIA-API-KEY"),
    ("secret-twice", "error", "    mounts:\n", "@        - variable: NVIDIA_API_KEY\n    mounts:\n"),
    ("pasted-key", "error", '(starts with "nvapi-")', "nvapi-" + "x7" * 20),
    ("pasted-key", "error", '(starts with "nvapi-")', "ab12" * 8),
    ("project-mount", "error", "type: project\n", "type: volume\n"),
    ("project-mount", "error", "- type: volume", "- type: project"),
    ("project-slash", "warning", "target: /project/\n", "target: /project\n"),
    ("target-slash", "warning", "target: /data/", "target: /data"),
    ("mount-type", "error", "- type: volume", "- type: bind"),
    ("mount-target", "error", "target: /data/", "target: data/"),
    ("mount-twice", "error", "target: /data/\n", "target: /project/data/input\n"),
    ("mount-source", "error", "target: /data/\n", "target: /data/\n@          source: /home/me\n"),
    ("mount-system", "warning", "target: /data/", "target: /var/run/"),
    ("mount-options", "warning", "options: volumeName=cache", "options: size=5"),
    ("mount-on-versioned", "warning", "target: /project/data/input/", "target: /project/models/big/"),
]  # fmt: skip
